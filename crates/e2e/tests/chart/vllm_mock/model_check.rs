//! The init container as the chart renders it, run on folders here.

use std::process::Command;

use tempfile::TempDir;

use super::{has_python, rendered, texts};
use crate::client::{Client, HELMS, outcome};
use crate::objects::the;

#[test]
fn a_folder_without_the_model_is_told_before_the_engine_starts() {
    let Some(helm) = Client::new(HELMS[1]).filter(|_| has_python()) else { return };
    let folder = TempDir::new().unwrap();
    let check = |globs: &str, below: &str| {
        let mount = folder.path().join(below);
        let set = format!("model.mountPath={},modelCheck.requiredGlobs={{{globs}}}", mount.display());
        let objects = rendered(&helm, &set).unwrap();
        let words = texts(&the(&objects, "Deployment")["spec"]["template"]["spec"]["initContainers"][0]["command"]);
        outcome(Command::new(&words[0]).args(&words[1..]))
    };
    let put = |name: &str| std::fs::write(folder.path().join(name), "{}").unwrap();

    assert!(check("config.json", "missing").unwrap_err().contains("set model.localPath"));
    assert!(check("config.json", "").unwrap_err().contains("is empty"));
    put("config.json");
    assert!(check("config.json", "").unwrap().contains("1 entries"));
    assert!(check("config.json\\,*.safetensors", "").is_err());
    // Of a downloaded snapshot whose files are elsewhere, only the links are mounted.
    std::os::unix::fs::symlink("../blobs/1", folder.path().join("a.safetensors")).unwrap();
    assert!(check("*.safetensors", "").unwrap_err().contains("matches *.safetensors"));
    put("b.safetensors");
    check("*.safetensors", "").unwrap();
}
