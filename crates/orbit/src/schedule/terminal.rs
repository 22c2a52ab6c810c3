//! The terminal of a schedule: at one place, or on a track.

use crate::frames::Observer;
use crate::site::Site;
use crate::track::Track;
use crate::visibility::GsoArc;
use bentpipe_profile::Utc;
use std::borrow::Cow;

/// A terminal, with its observer and its view of the geostationary arc as long as it stands still.
pub(crate) struct Terminal<'a> {
    observer: Observer,
    arc: GsoArc,
    track: Option<&'a Track>,
}

impl<'a> Terminal<'a> {
    /// Create the terminal at `site`, or on `track`.
    pub(crate) fn new(site: Site, track: Option<&'a Track>) -> Self {
        Self { observer: Observer::new(site), arc: GsoArc::new(site), track }
    }

    /// Return the observer at its position at a time.
    pub(crate) fn observer(&self, at: Utc) -> Observer {
        self.track.map_or(self.observer, |track| Observer::new(track.at(at)))
    }

    /// Return its view of the geostationary arc at a time.
    pub(crate) fn arc(&self, at: Utc) -> Cow<'_, GsoArc> {
        self.track.map_or(Cow::Borrowed(&self.arc), |track| Cow::Owned(GsoArc::new(track.at(at))))
    }
}
