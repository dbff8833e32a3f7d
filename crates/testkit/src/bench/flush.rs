//! What answers are compared with: how long this disk takes to flush 4 KiB, measured all the time beside the load.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bench::measure::{Latencies, to_ms};

/// Between two flushes: often enough for a median, seldom enough to leave the disk to the host.
const BETWEEN: Duration = Duration::from_millis(10);
const BLOCK: usize = 4096;
/// The file is written from its beginning again after so many blocks, as a write-ahead log is.
const BLOCKS: u64 = 1024;

/// Flushes that are made one after the other while nothing else is measured.
const ALONE: u64 = 200;

/// The median time of a flush in this folder at this moment.
pub(super) fn flush_p50_ms(folder: &Path) -> Result<f64> {
    let file = create_file(folder)?;
    let mut latencies = Latencies::default();
    for block in 0..ALONE {
        latencies.record(flush_block(&file, block)?);
    }
    let p50 = latencies.quantile(0.5).context("nothing was flushed")?;
    Ok(to_ms(p50))
}

/// Flushes until it is dropped.
pub(super) struct Flushes {
    seen: Arc<Mutex<Vec<Duration>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flushes {
    pub(super) fn begin(folder: &Path) -> Result<Self> {
        let file = create_file(folder)?;
        let seen = Arc::new(Mutex::default());
        let over = Arc::new(AtomicBool::new(false));
        let (own_seen, own_over) = (seen.clone(), over.clone());
        let thread = std::thread::spawn(move || flush_until(&own_over, &file, &own_seen));
        Ok(Self {
            seen,
            over,
            thread: Some(thread),
        })
    }

    /// Where a time begins.
    pub(super) fn mark(&self) -> usize {
        self.held().len()
    }

    /// The median of what was measured since.
    pub(super) fn p50_ms_since(&self, mark: usize) -> Result<f64> {
        let flushes = self.held().get(mark..).unwrap_or_default().to_vec();
        let latencies: Latencies = flushes.into_iter().collect();
        let p50 = latencies.quantile(0.5);
        let p50 = p50.context("the disk was not measured in this time")?;
        Ok(to_ms(p50))
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<Duration>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flushes {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It ends by itself; that it failed shows in what it measured.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// A file of full size, so that a flush does not have to write its length too.
fn create_file(folder: &Path) -> Result<File> {
    let file = File::create(folder.join("flushed"))?;
    for block in 0..BLOCKS {
        file.write_all_at(&[1; BLOCK], block * BLOCK as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn flush_block(file: &File, block: u64) -> std::io::Result<Duration> {
    let byte = u8::try_from(block % 251).unwrap_or_default();
    let began = Instant::now();
    file.write_all_at(&[byte; BLOCK], block % BLOCKS * BLOCK as u64)?;
    file.sync_data()?;
    Ok(began.elapsed())
}

fn flush_until(over: &AtomicBool, file: &File, seen: &Mutex<Vec<Duration>>) {
    let mut block = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(took) = flush_block(file, block) else {
            return;
        };
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(took);
        block += 1;
        std::thread::sleep(BETWEEN);
    }
}
