//! Requests to the kernel by rtnetlink, in the calling thread's network namespace.

use crate::error::EmuError;
use futures_util::TryStreamExt;
use rtnetlink::Handle;
use std::future::Future;

/// The index of the device `name`; 0 if there is none.
pub(crate) async fn index(handle: &Handle, name: &str) -> Result<u32, rtnetlink::Error> {
    let link = handle.link().get().match_name(name.to_owned()).execute().try_next().await?;
    Ok(link.map_or(0, |l| l.header.index))
}

/// Runs `request_fn` with a netlink connection to the calling thread's namespace.
pub(crate) fn with_netlink<T, F: Future<Output = Result<T, EmuError>>>(
    end: &'static str,
    request_fn: impl FnOnce(Handle) -> F,
) -> Result<T, EmuError> {
    let failed = |e: std::io::Error| EmuError::Interface { end, operation: "netlink", reason: e.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
        tokio::spawn(connection);
        request_fn(handle).await
    })
}
