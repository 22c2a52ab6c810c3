//! The number of threads of a computation.

/// Run `work` with its parallel parts on `threads` threads; `None`: on all cores of the machine.
///
/// The thread pool exists only for the call. If the threads cannot be created, the work runs on the shared pool, with the same results.
pub fn on_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> R {
    match threads.map(|n| rayon::ThreadPoolBuilder::new().num_threads(n.max(1)).build()) {
        Some(Ok(pool)) => pool.install(work),
        Some(Err(_)) | None => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requested_number_of_threads_is_used() {
        assert_eq!(on_threads(Some(1), rayon::current_num_threads), 1);
        assert_eq!(on_threads(Some(3), rayon::current_num_threads), 3);
        assert!(on_threads(None, rayon::current_num_threads) >= 1);
    }
}
