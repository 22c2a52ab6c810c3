//! How many cores the work takes.

/// Runs `work` with all parallel parts on `threads` cores; on all of the machine's with `None`.
///
/// The pool is made for the call and ends with it. If the machine refuses the threads, the work runs on the shared pool: slower or faster, never other
/// results.
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
    fn threads_are_as_many_as_asked() {
        assert_eq!(on_threads(Some(1), rayon::current_num_threads), 1);
        assert_eq!(on_threads(Some(3), rayon::current_num_threads), 3);
        assert!(on_threads(None, rayon::current_num_threads) >= 1);
    }
}
