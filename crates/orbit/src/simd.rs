//! Loops for whatever vector instructions the machine has.

/// Runs `work`, compiled once for each width of vectors and chosen at run time. Everything it calls must be `#[inline(always)]`: what is not inlined
/// is compiled for the smallest vectors.
///
/// The loops use no fused multiply-add and sum nothing across lanes, so the result is the same bit for bit whichever is taken.
pub fn widest<W: pulp::NullaryFnOnce>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}
