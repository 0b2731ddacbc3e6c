//! A browser without a window, driven over WebDriver.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use thirtyfour::common::log::LoggingPrefsLogLevel;
use thirtyfour::prelude::*;
use tokio::time::{Instant, sleep};

/// How long the page may take for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// chromedriver, which ends its browser when it ends, and is ended with the test.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Browser {
    pub page: WebDriver,
    _driver: Driver,
}

impl Browser {
    /// `None`, and a sentence that says so, where there is no chromedriver.
    ///
    /// # Panics
    /// There is none and `LLMSCALER_BROWSER=require` is set, so that CI cannot pass by skipping; or it does not start.
    pub async fn start() -> Option<Self> {
        let spawned =
            Command::new("chromedriver").arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let sentence =
                    format!("the dashboard was not tested in a browser: chromedriver: {error}; install chromium and chromium-driver");
                assert!(env::var("LLMSCALER_BROWSER").as_deref() != Ok("require"), "{sentence}");
                // The handle, because the print macros are captured, and a skipped test looks like a passed one.
                let _ = writeln!(std::io::stderr(), "skipped: {sentence}");
                return None;
            }
        };
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let driver = Driver(child);
        let port = loop {
            let line = lines.next().expect("chromedriver says its port").unwrap();
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        // Nobody may stop reading: the driver would wait for it.
        std::thread::spawn(move || lines.for_each(drop));
        // The client insists on one, though nothing is encrypted on the way to the driver.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut wishes = DesiredCapabilities::chrome();
        // Containers give a browser neither its own sandbox nor much shared memory; all that it opens is this test's page.
        for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"] {
            wishes.add_arg(argument).unwrap();
        }
        wishes.set_logging_prefs("browser", LoggingPrefsLogLevel::All).unwrap();
        let page = WebDriver::new(format!("http://127.0.0.1:{port}"), wishes).await.expect("chromedriver starts chromium");
        let browser = Self { page, _driver: driver };
        browser.size(1280, 900).await;
        Some(browser)
    }

    /// Ends the browser.
    pub async fn quit(self) {
        self.page.quit().await.unwrap();
    }

    pub async fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.page.cdp().send_raw("Emulation.setDeviceMetricsOverride", metrics).await.unwrap();
    }

    /// Light or dark, with or without motion.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.page.cdp().send_raw("Emulation.setEmulatedMedia", json!({"features": features})).await.unwrap();
    }

    /// Presses a key where the focus is.
    pub async fn press(&self, key: Key) {
        self.page.action_chain().send_keys(key).perform().await.unwrap();
    }

    /// What a script returns.
    pub async fn eval(&self, script: &str) -> Value {
        self.page.execute(script, vec![]).await.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    /// Waits until a script returns this.
    pub async fn until(&self, script: &str, wanted: impl Into<Value>) {
        let (deadline, wanted) = (Instant::now() + PATIENCE, wanted.into());
        loop {
            let found = self.eval(script).await;
            if found == wanted {
                return;
            }
            let text = self.eval("return document.body.innerText").await;
            assert!(
                Instant::now() < deadline,
                "{script}: {found} and not {wanted}; the page reads:\n{}",
                text.as_str().unwrap_or_default()
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the page has complained about since the last call.
    pub async fn complaints(&self) -> Vec<String> {
        let entries = self.page.browser_log().await.unwrap();
        entries.into_iter().map(|entry| format!("{}: {}", entry.level, entry.message)).collect()
    }

    /// A picture for people, where `LLMSCALER_SCREENSHOTS` names a folder for them.
    pub async fn picture(&self, name: &str) {
        if let Some(folder) = env::var_os("LLMSCALER_SCREENSHOTS") {
            self.page.screenshot(&PathBuf::from(folder).join(format!("{name}.png"))).await.unwrap();
        }
    }
}
