//! The scripts of the release workflow, on repositories that hold nothing but the files in which a version stands.

#![allow(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The words for the version in a repository, part by part.
#[derive(Clone, Copy)]
struct Parts<'a> {
    app_version: &'a str,
    chart: &'a str,
    cargo: &'a str,
    installer: &'a str,
    mock: &'a str,
    changelog: &'a str,
}

impl<'a> Parts<'a> {
    const fn all(version: &'a str) -> Self {
        Self { app_version: version, chart: version, cargo: version, installer: version, mock: version, changelog: version }
    }

    fn write(self, root: &Path) {
        let file = |path: &str, text: String| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file(
            "dist/chart/Chart.yaml",
            format!("apiVersion: v2\nname: chart\nversion: {}\n# A comment.\nappVersion: \"{}\"\n", self.chart, self.app_version),
        );
        // A dependency of the version that is asked for must not pass for the workspace's.
        file(
            "Cargo.toml",
            format!("[workspace.package]\nversion = \"{}\"\n\n[workspace.dependencies.other]\nversion = \"1.2.3\"\n", self.cargo),
        );
        file(
            "dist/install.yaml",
            format!("      containers:\n        - image: 4pdosc/llm-operator:{}\n", self.installer).replace("- image", "  image"),
        );
        file("test/charts/vllm-mock/Chart.yaml", format!("name: vllm-mock\nversion: 0.1.0\nappVersion: \"{}\"\n", self.mock));
        file(
            "CHANGELOG.md",
            format!("# Changelog\n\n## [Unreleased]\n\n## [{}] - 2026-11-30\n\n### Added\n\n* Scaling.\n", self.changelog),
        );
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/release").join(name)
}

fn check(tag: &str, parts: Parts<'_>) -> Output {
    let root = tempfile::tempdir().unwrap();
    parts.write(root.path());
    Command::new(script("check-version.sh")).arg(tag).arg(root.path()).output().unwrap()
}

#[test]
fn a_tag_that_agrees_with_every_part_is_released() {
    for (tag, version, prerelease) in [
        ("v1.2.3", "1.2.3", false),
        ("v0.1.0", "0.1.0", false),
        ("v1.2.3-rc.1", "1.2.3-rc.1", true),
        ("v10.20.30-alpha-2", "10.20.30-alpha-2", true),
    ] {
        let output = check(tag, Parts::all(version));
        assert!(output.status.success(), "{tag}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("version={version}\nprerelease={prerelease}\n"));
    }
}

#[test]
fn any_part_that_differs_refuses_the_tag_and_is_named() {
    let agreed = Parts::all("1.2.3");
    for (tag, parts, named) in [
        ("v1.2.3", Parts { app_version: "1.2.4", ..agreed }, "appVersion"),
        ("v1.2.3", Parts { app_version: "1.2.3-rc.1", ..agreed }, "appVersion"),
        ("v1.2.3", Parts { app_version: "v1.2.3", ..agreed }, "appVersion"),
        ("v1.2.3", Parts { app_version: "", ..agreed }, "nothing"),
        ("v1.2.3", Parts { chart: "1.2.2", ..agreed }, "version in dist/chart/Chart.yaml"),
        ("v1.2.3", Parts { cargo: "1.2.0", ..agreed }, "Cargo.toml"),
        ("v1.2.3", Parts { installer: "latest", ..agreed }, "install.yaml"),
        ("v1.2.3", Parts { mock: "1.2.2", ..agreed }, "vllm-mock"),
        ("v1.2.3", Parts { changelog: "1.2.30", ..agreed }, "CHANGELOG.md"),
        // Only the core agrees: a pre-release would install the image of the release.
        ("v1.2.3-rc.1", agreed, "appVersion"),
    ] {
        let output = check(tag, parts);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{tag}: {said}");
        assert!(said.contains(named), "{tag}: {said}");
        assert!(output.stdout.is_empty(), "a refused tag has no version");
    }
}

#[test]
fn what_is_not_v_and_a_semantic_version_is_refused() {
    for tag in ["1.2.3", "v1.2", "v1.2.3.4", "v01.2.3", "v1.2.3+build", "V1.2.3", "v1.2.3-", "v1.2.3-rc..1", "v", "", "v1.2.3\nv1.2.3"] {
        let output = check(tag, Parts::all(tag.strip_prefix('v').unwrap_or(tag)));
        assert_eq!(output.status.code(), Some(1), "{tag:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("semantic version"), "{tag:?}");
    }
}

#[test]
fn this_repository_could_be_released_as_what_it_says_it_is() {
    let output = Command::new(script("check-version.sh")).arg(concat!("v", env!("CARGO_PKG_VERSION"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn only_the_highest_release_is_the_latest() {
    let latest = |version: &str, tags: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tags");
        std::fs::write(&path, tags).unwrap();
        Command::new(script("latest.sh")).arg(version).stdin(std::fs::File::open(path).unwrap()).output().unwrap()
    };
    for (version, tags, is_latest) in [
        ("0.1.0", "v0.1.0\n", true),
        ("1.10.0", "refs/tags/v1.9.9\nrefs/tags/v1.10.0\nrefs/tags/v1.2.0\n", true),
        ("1.9.10", "v1.10.0\nv1.9.10\nv1.9.9\n", false),
        ("1.9.10", "v1.9.10\nv2.0.0-rc.1\nv2\nv2.0.0.0\nvery-new\n", true),
        ("2.0.0-rc.1", "v1.0.0\nv2.0.0-rc.1\n", false),
        ("2.0.0-rc.1", "v2.0.0-rc.1\n", false),
    ] {
        let output = latest(version, tags);
        assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("latest={is_latest}\n"), "{version} of {tags:?}");
    }
    // Not all of the tags, so it cannot be told.
    for tags in ["", "v1.0.0\nv1.2.30\n", "v1x2x3\n"] {
        let output = latest("1.2.3", tags);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{tags:?}");
    }
}

#[test]
fn the_notes_of_a_version_are_its_section_alone() {
    let folder = tempfile::tempdir().unwrap();
    let changelog = folder.path().join("CHANGELOG.md");
    let text = "# Changelog\n\n## [Unreleased]\n\n* Not yet.\n\n## [1.2.0] - 2026-12-01\n\n### Added\n\n* Two.\n\n## [1.1.0] - 2026-11-30\n\n* One.\n\n\
                ## [1.0.0] - 2026-11-29\n\n[1.2.0]: https://example.com/1.2.0\n";
    std::fs::write(&changelog, text).unwrap();
    let notes = |version: &str| Command::new(script("notes.sh")).arg(version).arg(&changelog).output().unwrap();
    for (version, expected) in [("1.2.0", "### Added\n\n* Two.\n"), ("1.1.0", "* One.\n")] {
        let output = notes(version);
        assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
    for empty_or_missing in ["1.0.0", "2.0.0", "1.2"] {
        assert_eq!(notes(empty_or_missing).status.code(), Some(1), "{empty_or_missing}");
    }
}

#[test]
fn the_image_is_built_by_the_toolchain_that_everything_is_tested_with() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let toolchain = std::fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    let dockerfile = std::fs::read_to_string(root.join("Dockerfile")).unwrap();
    assert!(dockerfile.contains(&format!("ARG RUST_IMAGE=rust:{channel}-")), "the Dockerfile does not build with Rust {channel}");
}

#[test]
fn actions_are_pinned_by_commit_with_their_version_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows");
    let mut pinned = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let workflow = std::fs::read_to_string(&path).unwrap();
        for uses in workflow.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("uses: ")) {
            if uses.starts_with("./") {
                continue;
            }
            let commit = uses.split_once('@').unwrap().1.split_once(" # v").map(|(commit, _)| commit).unwrap_or_default();
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit, "{}: `uses: {uses}` is not a commit with its version in a comment", path.display());
            pinned += 1;
        }
    }
    assert!(pinned > 10, "only {pinned} actions");
}
