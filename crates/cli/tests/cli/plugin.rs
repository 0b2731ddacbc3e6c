//! The command under the name by which kubectl finds it.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::running::texts;

#[test]
fn as_a_plugin_it_goes_by_the_name_that_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-llmscaler");
    symlink(env!("CARGO_BIN_EXE_llmscaler"), &plugin).unwrap();
    for (arguments, usage) in [
        (&["--help"][..], "Usage: kubectl llmscaler <COMMAND>"),
        (&["explain", "--help"], "Usage: kubectl llmscaler explain [OPTIONS] [NAME]"),
        (&["doctor", "--help"], "Usage: kubectl llmscaler doctor [OPTIONS] [NAME]"),
    ] {
        let (out, _, code) = texts(&Command::new(&plugin).args(arguments).output().unwrap());
        assert!(code == 0 && out.contains(usage), "{out}");
    }
    let (crd, _, code) = texts(&Command::new(&plugin).arg("crd").output().unwrap());
    assert!(code == 0 && crd.contains("llmscalers.autoscaling.modelsphere.dev"), "{crd}");
    let (out, errors, code) = texts(&Command::new(&plugin).args(["explain", "--wach"]).output().unwrap());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(errors.contains("kubectl llmscaler explain"), "{errors}");
}

#[test]
fn a_cluster_that_is_not_there_is_a_failure_that_says_what_to_set() {
    for command in ["explain", "doctor"] {
        let mut away = Command::new(env!("CARGO_BIN_EXE_llmscaler"));
        away.args([command, "--kubeconfig", "/no/such/kubeconfig"]);
        let (out, errors, code) = texts(&away.output().unwrap());
        assert_eq!((code, out.as_str()), (1, ""), "{errors}");
        assert!(errors.contains("/no/such/kubeconfig") && errors.contains("KUBECONFIG"), "{errors}");
    }
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    for arguments in [&["explain", "x", "-A"][..], &["explain", "--watch"], &["doctor", "-A", "-n", "x"], &["doctor", "x", "-o", "yaml"]] {
        let (_, errors, code) = texts(&Command::new(env!("CARGO_BIN_EXE_llmscaler")).args(arguments).output().unwrap());
        assert_eq!(code, 2, "{arguments:?}: {errors}");
    }
    let (out, _, _) = texts(&Command::new(env!("CARGO_BIN_EXE_llmscaler")).args(["doctor", "--help"]).output().unwrap());
    assert!(out.contains("3  there are warnings"), "{out}");
}
