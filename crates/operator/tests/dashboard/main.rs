//! The dashboard in a real browser: it loads, stays current, sorts and searches, and comes back after a restart of the server.
//!
//! Needs chromium and chromedriver; without them it says that it was skipped. `LLMSCALER_SCREENSHOTS=FOLDER` keeps pictures of the
//! page there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what helps a test may fail it")]

mod browser;
mod fleet;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use llmscaler_operator::Clock;
use llmscaler_operator::dashboard::{Dashboard, History};
use thirtyfour::Key;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::browser::Browser;
use crate::fleet::Scaler;

/// A dashboard that runs.
struct Running {
    addr: SocketAddr,
    history: History,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(port: u16) -> Self {
        let dashboard = Dashboard::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), vec![], Clock::start()).await.unwrap();
        let (addr, history, shutdown) = (dashboard.addr(), dashboard.history(), CancellationToken::new());
        history.leading(true);
        let ending = shutdown.clone();
        let task = tokio::spawn(async move { dashboard.run(ending).await.unwrap() });
        Self { addr, history, shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }

    fn url(&self, hash: &str) -> String {
        format!("http://localhost:{}/{hash}", self.addr.port())
    }
}

/// So many syncs ago, in milliseconds since 1970.
fn ago(syncs: i64) -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64 - syncs * 15_000
}

/// A wave of load over an hour, with a hole in its middle in which the queue is unknown.
fn wave(sync: i64) -> (Option<f64>, Option<f64>) {
    let load = 18.0 - 14.0 * (sync as f64 / 38.0).cos() + 2.0 * (sync as f64 * 1.7).sin();
    let late = if load > 28.0 { 0.04 } else { 0.002 } + 0.003 * (sync as f64).cos().abs();
    ((!(100..112).contains(&sync)).then_some(load.max(0.0)), (sync > 10 && !(150..165).contains(&sync)).then_some(late))
}

const SYNCS: i64 = 239;
const ROW: &str = "#scalers tbody tr:not([hidden])";

/// Five scalers: one with an hour's past, one in trouble, one that waits, one at its maximum, one that is quiet.
fn feed(history: &History) -> Scaler {
    let mut chat = Scaler::new("serving", "chat-70b", 8, ago(SYNCS));
    (0..SYNCS).for_each(|sync| {
        let (queued, late) = wave(sync);
        chat.sync(history, queued, late);
    });
    for (name, max, loads) in [
        ("embeddings", 4, [Some(3.0), Some(6.0), Some(4.0)]),
        ("code-assist", 6, [Some(8.0), None, None]),
        ("summaries", 2, [Some(9.0), Some(30.0), Some(40.0)]),
        ("batch-eval", 12, [Some(9.0), Some(9.0), Some(44.0)]),
    ] {
        let mut scaler = Scaler::new("batch", name, max, ago(3));
        loads.into_iter().for_each(|load| scaler.sync(history, load, None));
    }
    chat
}

fn texts(selector: &str) -> String {
    format!("return [...document.querySelectorAll('{ROW} {selector}')].map((cell) => cell.textContent.trim())")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_in_a_browser() {
    let Some(browser) = Browser::start().await else { return };
    let running = Running::start(0).await;
    let mut chat = feed(&running.history);
    loads_sorts_and_searches(&browser, &running).await;
    follows_the_keyboard(&browser).await;
    shows_a_scaler_and_how_it_grows(&browser, &running, &mut chat).await;
    fits_a_phone_and_the_dark(&browser, &running).await;
    a_broken_link_leads_to_all_scalers(&browser, &running).await;
    assert_eq!(browser.complaints().await, [""; 0]);
    let running = survives_a_restart(&browser, running).await;
    browser.page.goto("about:blank").await.unwrap();
    running.stop().await;
    stays_quick_with_a_thousand(&browser).await;
    browser.quit().await;
}

async fn loads_sorts_and_searches(browser: &Browser, running: &Running) {
    browser.prefer("light").await;
    browser.page.goto(running.url("")).await.unwrap();
    let names = texts(".c-name a");
    browser.until(&names, vec!["batch-eval", "code-assist", "embeddings", "summaries", "chat-70b"]).await;
    browser.until("return document.getElementById('connection').textContent", "live").await;
    browser.picture("overview-light").await;

    // Each head sorts, one way and the other.
    for column in ["name", "target", "ready", "spec", "desired", "bounds", "signals", "state", "change"] {
        let sorted = format!("return document.querySelector('[data-sort={column}]').getAttribute('aria-sort')");
        let click = format!("document.querySelector('[data-sort={column}] button').click()");
        browser.eval(&click).await;
        let (first, one_way) = (browser.eval(&sorted).await, browser.eval(&names).await);
        browser.eval(&click).await;
        assert_ne!((browser.eval(&sorted).await, browser.eval(&names).await), (first, one_way), "{column}");
        assert_eq!(browser.eval("return document.querySelectorAll('[aria-sort]').length").await, 1);
    }
    browser.eval("document.querySelector('[data-sort=spec] button').click()").await;
    let counts = browser.eval(&texts("td:nth-of-type(3)")).await;
    let counts: Vec<u32> = counts.as_array().unwrap().iter().map(|count| count.as_str().unwrap().parse().unwrap()).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "the largest first: {counts:?}");

    let type_in =
        |text: &str| format!("const box = document.getElementById('search'); box.value = '{text}'; box.dispatchEvent(new Event('input'))");
    browser.eval(&type_in("CODE signals")).await;
    assert_eq!(browser.eval(&names).await, serde_json::json!(["code-assist"]));
    assert_eq!(browser.eval("return document.getElementById('count').textContent").await, "1 of 5 scalers");
    browser.eval(&type_in("no such scaler")).await;
    assert_eq!(browser.eval("return document.getElementById('empty').hidden").await, false);
    browser.eval(&type_in("")).await;
    browser.eval("document.getElementById('troubles').click(); document.querySelector('[data-sort=name] button').click()").await;
    assert_eq!(browser.eval(&names).await, serde_json::json!(["code-assist", "summaries"]), "unknown signals, and held at the maximum");
    browser.eval("document.getElementById('troubles').click()").await;
}

/// Everything can be reached with Tab, and it is seen where one is.
async fn follows_the_keyboard(browser: &Browser) {
    browser.eval("document.activeElement.blur(); window.scrollTo(0, 0)").await;
    let mut reached = vec![];
    for _ in 0..15 {
        browser.press(Key::Tab).await;
        let here = browser
            .eval("const here = document.activeElement; return [here.id || here.textContent, getComputedStyle(here).outlineStyle]")
            .await;
        assert_eq!(here[1], "solid", "it is not seen that {} has the focus", here[0]);
        reached.push(here[0].as_str().unwrap().to_owned());
    }
    let heads = ["Scaler", "Target", "Ready", "Asked for", "Desired", "Use of bounds", "Signals ÷ target", "State", "Last change"];
    let expected = ["llmscaler", "search", "troubles"].into_iter().chain(heads).chain(["batch-eval", "code-assist", "embeddings"]);
    assert!(expected.eq(&reached), "{reached:?}");
    browser.eval("document.querySelector('[data-sort=ready] button').focus()").await;
    browser.press(Key::Enter).await;
    assert_eq!(browser.eval("return document.querySelector('[data-sort=ready]').getAttribute('aria-sort')").await, "descending");
}

async fn shows_a_scaler_and_how_it_grows(browser: &Browser, running: &Running, chat: &mut Scaler) {
    browser.eval("[...document.querySelectorAll('.c-name a')].find((link) => link.textContent === 'chat-70b').click()").await;
    browser.until("return document.querySelectorAll('.stages').length > 0 && document.querySelector('.stages').children.length", 7).await;
    assert_eq!(
        browser.eval("return [location.hash, document.title, document.activeElement.id]").await,
        serde_json::json!(["#/serving/chat-70b", "chat-70b: llmscaler", "detail-title"])
    );
    let panels = browser.eval("return [...document.querySelectorAll('.panel-name')].map((name) => name.textContent)").await;
    assert_eq!(panels, serde_json::json!(["Replicas", "queue", "kv-cache", "Requests in time"]));
    // What was unknown for a while is a gap in the line: it begins twice.
    let pieces = "return document.querySelectorAll('.signal-line')[0].getAttribute('d').split('M').length - 1";
    assert_eq!(browser.eval(pieces).await, 2);
    let told = browser.eval("return document.querySelector('.course svg').getAttribute('aria-label')").await;
    assert!(told.as_str().unwrap().starts_with("Replicas. Asked for now "), "{told}");
    browser.eval("const figure = document.querySelector('.course'); figure.focus(); figure.dispatchEvent(new KeyboardEvent('keydown', { key: 'Home' }))").await;
    browser.until("return document.querySelector('.readout').textContent.includes('asked for 2')", true).await;
    browser.picture("detail-light").await;
    browser.size(1280, 2600).await;
    browser.picture("detail-light-whole").await;
    browser.size(1280, 900).await;

    let (asked_for, before) = ("return document.querySelectorAll('#detail .facts dd')[1].textContent", chat.replicas());
    assert_eq!(browser.eval(asked_for).await, before.to_string());
    chat.sync(&running.history, Some(36.0), Some(0.06));
    let after = chat.replicas();
    assert!(after > before, "{before} → {after}");
    let newest = "return document.querySelector('.log .counts').textContent";
    browser.until(newest, format!("{before} → {after}")).await;
    chat.sync(&running.history, Some(36.0), Some(0.06));
    browser.until(asked_for, after.to_string()).await;
    browser.page.goto(running.url("#/")).await.unwrap();
    let names = texts(".c-name a");
    browser.until(&names, vec!["chat-70b", "batch-eval", "code-assist", "embeddings", "summaries"]).await;
    running.history.forget("batch", "embeddings");
    browser.until(&names, vec!["chat-70b", "batch-eval", "code-assist", "summaries"]).await;
    browser.page.goto(running.url("#/batch/embeddings")).await.unwrap();
    browser.until("return document.querySelector('#detail .notice')?.textContent.includes('deleted')", true).await;
    // The browser tells of each answer that is an error, and this one is meant to be.
    let complaints = browser.complaints().await;
    assert!(
        complaints.iter().all(|complaint| complaint.contains("/api/scalers/batch/embeddings") && complaint.contains("404")),
        "{complaints:?}"
    );
}

async fn fits_a_phone_and_the_dark(browser: &Browser, running: &Running) {
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(ground).await;
    for (hash, name) in [("#/", "overview"), ("#/serving/chat-70b", "detail"), ("#/batch/code-assist", "trouble")] {
        browser.page.goto(running.url(hash)).await.unwrap();
        browser
            .until(
                "return document.querySelectorAll('#overview:not([hidden]) tbody tr, #detail:not([hidden]) .course svg').length > 2",
                true,
            )
            .await;
        browser.prefer("dark").await;
        assert_ne!(browser.eval(ground).await, light, "dark has another ground");
        browser.picture(&format!("{name}-dark")).await;
        browser.prefer("light").await;
        browser.size(360, 800).await;
        let wide = "return [...document.querySelectorAll('body *')].filter((element) => !element.closest('svg') && element.getBoundingClientRect().right > 361).map((element) => element.outerHTML.slice(0, 80))";
        browser.until("return document.documentElement.scrollWidth", 360).await;
        assert_eq!(browser.eval(wide).await, serde_json::json!([]), "{name} fits 360 px");
        browser.picture(&format!("{name}-phone")).await;
        browser.size(360, 2800).await;
        browser.picture(&format!("{name}-phone-whole")).await;
        browser.size(1280, 900).await;
    }
}

/// A `%` that encodes nothing, as a link that was cut has one. The page starts with it, and it comes to a page that runs.
async fn a_broken_link_leads_to_all_scalers(browser: &Browser, running: &Running) {
    let shown = "return [document.getElementById('overview').hidden, document.getElementById('detail').hidden]";
    let connection = "return document.getElementById('connection').className";
    for broken in ["#/%/x", "#/serving/chat%E2"] {
        browser.page.goto("about:blank").await.unwrap();
        browser.page.goto(running.url(broken)).await.unwrap();
        browser.until(connection, "live").await;
        assert_eq!(browser.eval(shown).await, serde_json::json!([false, true]), "{broken}");
    }
    browser.eval("location.hash = '#/serving/chat-70b'").await;
    browser.until(shown, vec![true, false]).await;
    browser.eval("location.hash = '#/%/x'").await;
    browser.until(shown, vec![false, true]).await;
}

async fn survives_a_restart(browser: &Browser, running: Running) -> Running {
    browser.page.goto(running.url("#/")).await.unwrap();
    browser.until("return document.getElementById('connection').className", "live").await;
    let port = running.addr.port();
    running.stop().await;
    browser.until("return document.getElementById('connection').className", "lost").await;
    assert_eq!(browser.eval("return document.querySelectorAll('#scalers tbody tr').length").await, 4, "what was seen stays");
    browser.picture("no-connection").await;
    let running = Running::start(port).await;
    Scaler::new("serving", "after-the-restart", 8, ago(1)).sync(&running.history, Some(7.0), None);
    browser.until(&texts(".c-name a"), vec!["after-the-restart"]).await;
    browser.until("return document.getElementById('connection').className", "live").await;
    let complaints = browser.complaints().await;
    let expected = |complaint: &String| complaint.contains("net::ERR_");
    assert!(complaints.iter().all(expected), "only that the server was away: {complaints:?}");
    running
}

/// Prints what it measures; that it is quick is for people to see, as a busy machine would fail a limit.
async fn stays_quick_with_a_thousand(browser: &Browser) {
    let running = Running::start(0).await;
    let mut scalers: Vec<_> = (0..1000).map(|number| Scaler::new("serving", &format!("fleet-{number}"), 8, ago(60))).collect();
    for (number, scaler) in scalers.iter_mut().enumerate() {
        (0..60).for_each(|sync| scaler.sync(&running.history, Some(8.0 + ((number as i64 + sync) % 9) as f64), None));
    }
    browser.page.goto(running.url("")).await.unwrap();
    browser.until("return document.querySelectorAll('#scalers tbody tr').length", 1000).await;
    browser.picture("thousand").await;
    scalers[7].sync(&running.history, Some(40.0), None);
    let spec = "return [...document.querySelectorAll('#scalers tbody tr')].find((row) => row.cells[0].textContent.startsWith('fleet-7serving')).cells[4].textContent";
    browser.until(spec, "8").await;
    let script = "
        const done = arguments[arguments.length - 1];
        (async () => {
          const overview = await import('/overview.js');
          const all = new Map((await (await fetch('/api/scalers')).json()).scalers.map((scaler) => [`${scaler.namespace}/${scaler.name}`, scaler]));
          const timed = (work) => { const start = performance.now(); work(); document.body.getBoundingClientRect(); return Math.round(performance.now() - start); };
          overview.replace(new Map(), Date.now());
          const first = timed(() => overview.replace(all, Date.now()));
          const keys = [...all.keys()];
          const change = (count) => { for (const key of keys.slice(0, count)) all.set(key, { ...all.get(key), spec: all.get(key).spec + 1 }); };
          change(30);
          const some = timed(() => overview.update(keys.slice(0, 30), [], Date.now()));
          change(1000);
          const every = timed(() => overview.update(keys, [], Date.now()));
          const sorted = timed(() => document.querySelector('[data-sort=spec] button').click());
          done([first, some, every, sorted]);
        })();";
    let figures = browser.page.execute_async(script, vec![]).await.unwrap().json().clone();
    let _ = writeln!(std::io::stderr(), "1,000 rows, in ms: first render, 30 changed, all changed, sorted: {figures}");
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.page.goto("about:blank").await.unwrap();
    running.stop().await;
}
