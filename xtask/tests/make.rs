//! The Makefile and the script that builds what the tests take: what they refuse before they do anything.

#![allow(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A target of the Makefile in a folder that has nothing else, with a kubectl that says that it was called.
fn make(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let makefile = root().join("Makefile");
    // What `make test` was told is not for the targets here.
    let mut make = Command::new("make");
    make.env_remove("MAKEFLAGS").env_remove("MAKEOVERRIDES").env_remove("IMG");
    make.current_dir(folder.path()).arg("-f").arg(makefile).arg("KUBECTL=echo called").args(arguments).output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_is_no_image_reaches_no_command() {
    for image in ["registry:5000/mine:1", "mine", "ghcr.io/a/b_c:v1.2-x@sha256:0a"] {
        let checked = make(&["check-img", &format!("IMG={image}")]);
        assert!(checked.status.success() && checked.stderr.is_empty(), "{image}: {}", said(&checked.stderr));
    }
    for image in ["", " ", "a b", "a;b", "a|b", "a&b", "a'b", "a\"b", "a\nb", "`a`", "-a", "ä"] {
        for target in ["deploy", "build-installer", "docker-build", "docker-push", "docker-buildx"] {
            let refused = make(&["CARGO=echo called", "CONTAINER_TOOL=echo called", target, &format!("IMG={image}")]);
            let (out, errors) = (said(&refused.stdout), said(&refused.stderr));
            assert!(!refused.status.success() && errors.contains("write IMG=REGISTRY/NAME:TAG"), "{target} {image:?}: {errors}");
            assert!(!out.contains("called"), "{target} {image:?}: {out}");
        }
    }
}

#[test]
fn without_the_installer_nothing_is_applied() {
    let refused = make(&["-s", "deploy", "IMG=mine:1"]);
    let (out, errors) = (said(&refused.stdout), said(&refused.stderr));
    assert!(!refused.status.success() && out.is_empty() && errors.contains("dist/install.yaml"), "{out}{errors}");
}

#[test]
fn nothing_is_built_by_a_name_that_is_none() {
    for name in ["", "etc"] {
        let refused = Command::new(root().join("hack/build.sh")).arg(name).output().unwrap();
        let errors = said(&refused.stderr);
        assert!(refused.status.code() == Some(2) && errors.contains(&format!("nothing is named '{name}'")), "{errors}");
    }
}
