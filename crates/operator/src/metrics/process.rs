//! What the kernel tells of this process, under the names that every Prometheus client uses.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

/// The kernel counts processor time in hundredths of a second where it tells it to programs, on all common machines.
const TICKS_PER_SECOND: f64 = 100.0;

/// This process. Where there is no `/proc` there are no series.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().and_then(|status| resident_bytes(&status)) {
            encoder
                .encode_descriptor("process_resident_memory_bytes", "Resident memory size in bytes.", None, MetricType::Gauge)?
                .encode_gauge(&bytes)?;
        }
        if let Some(seconds) = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_seconds(&stat)) {
            encoder
                .encode_descriptor("process_cpu_seconds", "Processor time spent in seconds.", None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, f64, f64>(&seconds, None)?;
        }
        Ok(())
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    Some(kibibytes.trim().parse::<u64>().ok()? * 1024)
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may hold anything; the 14th and 15th are user and system time.
    let mut after_name = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: f64 = after_name.nth(11)?.parse().ok()?;
    let system: f64 = after_name.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_name() {
        let stat = "4 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t   2048 kB\n"), Some(2_097_152));
        assert_eq!(cpu_seconds("4 (a) R"), None);
        assert_eq!(resident_bytes(""), None);
    }
}
