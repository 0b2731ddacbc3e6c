//! Every scaler that a page shows is one that the API server takes.

use serde_json::Value;

use llmscaler_pages::pages;

/// The scaler that is a document, or that a document of `llmscaler decide` is about.
fn scaler(document: Value) -> Option<Value> {
    if document["kind"] == "LLMScaler" {
        return Some(document);
    }
    document.get("scaler").filter(|scaler| scaler["kind"] == "LLMScaler").cloned()
}

/// Why it is refused.
fn refusal(scaler: Value) -> Option<String> {
    let parsed = llmscaler_api::parse_json(scaler).and_then(|scaler| scaler.parse().map(drop));
    parsed.err().map(|invalid| invalid.to_string())
}

#[test]
fn every_scaler_is_valid_unless_it_is_marked() {
    let mut found = 0;
    for page in pages() {
        for block in &page.blocks {
            let marked = match block.info.as_str() {
                "yaml" => false,
                "yaml,ignore" => true,
                _ => continue,
            };
            let documents: Vec<Value> = match serde_saphyr::from_multiple(&block.text) {
                Ok(documents) => documents,
                Err(_) if marked => continue,
                Err(error) => panic!("{}: {error}\n{}", page.path, block.text),
            };
            for scaler in documents.into_iter().filter_map(scaler) {
                let refusal = refusal(scaler);
                assert_eq!(refusal.is_some(), marked, "{}: {refusal:?}\n{}", page.path, block.text);
                found += 1;
            }
        }
    }
    assert!(found > 25, "{found} scalers found");
}
