//! Links, pictures and the table of contents.

use std::collections::{BTreeMap, HashMap, HashSet};

use llmscaler_pages::{pages, root};

#[test]
fn every_link_leads_somewhere() {
    let (root, pages) = (root(), pages());
    let anchors: HashMap<&str, &HashSet<String>> = pages.iter().map(|page| (page.path.as_str(), &page.anchors)).collect();
    let (mut followed, mut wrong) = (0, vec![]);
    for page in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            followed += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let from = root.join(&page.path);
            let target = if file.is_empty() { Ok(from) } else { from.parent().unwrap().join(file).canonicalize() };
            let Ok(target) = target.map(|target| target.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()) else {
                wrong.push(format!("{}: {link}: no such file", page.path));
                continue;
            };
            if page.path.starts_with("docs/") && (!target.starts_with("docs/") || target == "docs/SUMMARY.md") {
                wrong.push(format!("{}: {link}: the book has only what is in docs; name the file without a link", page.path));
            }
            if !heading.is_empty() && !anchors.get(target.as_str()).is_some_and(|anchors| anchors.contains(heading)) {
                wrong.push(format!("{}: {link}: {target} has no such heading", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 200, "{followed} links followed");
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md").unwrap();
    let mut listed = BTreeMap::<String, u32>::new();
    for link in &summary.links {
        *listed.entry(format!("docs/{link}")).or_default() += 1;
    }
    for page in pages.iter().filter(|page| page.path.starts_with("docs/") && page.path != summary.path) {
        let times = listed.remove(&page.path).unwrap_or_default();
        assert_eq!(times, 1, "docs/SUMMARY.md has to list {} once", page.path);
    }
    assert!(listed.is_empty(), "docs/SUMMARY.md lists what is not there: {listed:?}");
}

#[test]
fn every_picture_of_the_docs_is_shown() {
    let shown: HashSet<String> =
        pages().into_iter().flat_map(|page| page.links).filter_map(|link| link.rsplit('/').next().map(str::to_owned)).collect();
    for entry in std::fs::read_dir(root().join("docs/pictures")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(shown.contains(&name), "no page shows docs/pictures/{name}");
    }
}
