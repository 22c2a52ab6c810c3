//! `bentpipe._native.Satellites`: sky, look angles, routes, all pairs and serving schedules of a constellation.

use crate::error::user_error;
use crate::network::PyNetwork;
use bentpipe_orbit::batch::{LookAnglesOut, SiteTimes, look_angles};
use bentpipe_orbit::elements::{Elements, age_warning, nearest_of_each, read_elements};
use bentpipe_orbit::ephemeris::EcefBlock;
use bentpipe_orbit::frames::ecef_to_geodetic;
use bentpipe_orbit::isl::PlusGrid;
use bentpipe_orbit::mesh::{LaserFleet, mesh};
use bentpipe_orbit::network::{self, NetworkSettings};
use bentpipe_orbit::parallel::on_threads;
use bentpipe_orbit::propagate::Propagator;
use bentpipe_orbit::route::{self, LinkGraph, Network};
use bentpipe_orbit::schedule::{self, Gateway, Isl, POLICIES, ScheduleRequest, Scheduler, SlotGrid};
use bentpipe_orbit::site::Site;
use bentpipe_orbit::track::{Track, TrackPoint};
use bentpipe_orbit::visibility;
use bentpipe_orbit::walker::{Shell, constellation};
use bentpipe_profile::{Nanos, Utc};
use numpy::{IntoPyArray, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Arc;

/// Routes per check of Ctrl-C and call of `on_progress`: about a tenth of a second.
const ROUTES_PER_SLICE: usize = 512;
/// All-pairs states per check.
const STATES_PER_SLICE: usize = 64;
/// Slots per check. With ten thousand satellites a slot takes three milliseconds.
const SLOTS_PER_SLICE: usize = 64;

/// RTTs [ms], numbers of hops and satellites of a series of routes.
type RouteColumns<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<Vec<u64>>);

/// A constellation: elements with their propagators, and the inter-satellite links: of routes, and of serving schedules.
#[pyclass(name = "Satellites", module = "bentpipe._native", frozen)]
pub struct PySatellites {
    elements: Arc<[Elements]>,
    propagators: Arc<[Propagator]>,
    grids: Vec<PlusGrid>,
    lasers: Arc<LinkGraph>,
    superseded: usize,
    sha256: Option<String>,
}

impl PySatellites {
    /// Create the constellation. Schedules use the links of `grids`, routes those to the same slots.
    fn new(elements: Vec<Elements>, grids: &[PlusGrid], superseded: usize, sha256: Option<String>) -> PyResult<Self> {
        let propagators = Propagator::all(&elements).map_err(user_error)?;
        let lasers = Arc::new(LinkGraph::new(grids, elements.len()));
        let grids = grids.iter().filter(|grid| !grid.has_only_rings()).map(|grid| grid.shifted(0, 0)).collect();
        Ok(Self { elements: elements.into(), propagators: propagators.into(), grids, lasers, superseded, sha256 })
    }

    /// Return the same satellites with other links.
    fn with_grids(&self, grids: Vec<PlusGrid>) -> Self {
        let (elements, propagators) = (self.elements.clone(), self.propagators.clone());
        let lasers = Arc::new(LinkGraph::new(&grids, elements.len()));
        Self { elements, propagators, grids, lasers, superseded: self.superseded, sha256: self.sha256.clone() }
    }
}

/// Return latitude and longitude of the point below a position [deg].
fn point(position_km: [f64; 3]) -> (f64, f64) {
    let site = ecef_to_geodetic(position_km);
    (site.lat_deg, site.lon_deg)
}

fn site((lat_deg, lon_deg, alt_m): (f64, f64, f64)) -> PyResult<Site> {
    Site::new(lat_deg, lon_deg, alt_m).map_err(user_error)
}

fn utc(times: &PyReadonlyArray1<'_, i64>) -> Vec<Utc> {
    times.as_array().iter().map(|&t| Utc(t)).collect()
}

/// Check for Ctrl-C and report progress.
fn report(py: Python<'_>, on_progress: Option<&Py<PyAny>>, done: usize, total: usize) -> PyResult<()> {
    py.check_signals()?;
    if let Some(callback) = on_progress {
        callback.call1(py, (done as f64 / total.max(1) as f64,))?;
    }
    Ok(())
}

#[pymethods]
impl PySatellites {
    /// Read a file of elements. If it has several sets for one satellite, keep the one nearest to `nearest_to_unix_ns`; `None`: keep all.
    #[staticmethod]
    fn read(py: Python<'_>, data: &[u8], name: &str, nearest_to_unix_ns: Option<i64>, sha256: &str) -> PyResult<Self> {
        py.detach(|| {
            let all = read_elements(data, name).map_err(user_error)?;
            let (elements, superseded) = match nearest_to_unix_ns {
                Some(at) => nearest_of_each(all, Utc(at)),
                None => (all, 0),
            };
            Self::new(elements, &[], superseded, Some(sha256.to_owned()))
        })
    }

    /// Build a constellation from the shells of a filing (JSON).
    #[staticmethod]
    fn shells(py: Python<'_>, shells: &str, epoch_unix_ns: i64, kept_at_unix_ns: i64) -> PyResult<Self> {
        let shells: Vec<Shell> = serde_json::from_str(shells).map_err(user_error)?;
        py.detach(|| {
            let (elements, grids) = constellation(&shells, Utc(epoch_unix_ns), Utc(kept_at_unix_ns)).map_err(user_error)?;
            Self::new(elements, &grids, 0, None)
        })
    }

    fn with_grid(&self, planes: usize, per_plane: usize) -> PyResult<Self> {
        let grid = PlusGrid::new(planes, per_plane, self.elements.len()).map_err(user_error)?;
        Ok(self.with_grids(vec![grid]))
    }

    /// Return the same satellites with the links of the fleets' lasers (JSON) for serving schedules. Routes stay as they are.
    fn with_lasers(&self, py: Python<'_>, fleets: &str) -> PyResult<Self> {
        let fleets: Vec<LaserFleet> = serde_json::from_str(fleets).map_err(user_error)?;
        let lasers = Arc::new(py.detach(|| mesh(&self.elements, &self.propagators, &fleets)));
        Ok(Self { lasers, ..self.with_grids(self.grids.clone()) })
    }

    fn without_links(&self) -> Self {
        self.with_grids(Vec::new())
    }

    fn __len__(&self) -> usize {
        self.elements.len()
    }

    /// Number of element sets left out, because the file has a set for the same satellite nearer to the requested time.
    #[getter]
    fn superseded(&self) -> usize {
        self.superseded
    }

    /// SHA-256 of the file on disk that the elements were read from.
    #[getter]
    fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }

    /// Whether there are links between satellites.
    #[getter]
    fn has_links(&self) -> bool {
        !self.grids.is_empty()
    }

    /// Make a network from settings (JSON): its links between satellites are those of serving schedules.
    fn network(&self, py: Python<'_>, settings: &str, seed: u64) -> PyResult<PyNetwork> {
        let settings: NetworkSettings = serde_json::from_str(settings).map_err(user_error)?;
        let network = py.detach(|| network::make(&settings, &self.elements, &self.lasers, seed)).map_err(user_error)?;
        Ok(PyNetwork(Arc::new(network)))
    }

    /// Number of links between satellites that serving schedules use.
    #[getter]
    fn lasers(&self) -> usize {
        self.lasers.links().len()
    }

    fn elements<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        columns.set_item("name", self.elements.iter().map(|e| e.name.as_str()).collect::<Vec<_>>())?;
        columns.set_item("norad_id", self.elements.iter().map(|e| e.norad_id).collect::<Vec<_>>().into_pyarray(py))?;
        columns.set_item("epoch_unix_ns", self.elements.iter().map(|e| e.epoch.0).collect::<Vec<_>>().into_pyarray(py))?;
        let floats = |name: &str, field: fn(&Elements) -> f64| {
            columns.set_item(name, self.elements.iter().map(field).collect::<Vec<_>>().into_pyarray(py))
        };
        floats("mean_motion_rev_day", |e| e.mean_motion_rev_day)?;
        floats("eccentricity", |e| e.eccentricity)?;
        floats("inclination_deg", |e| e.inclination_deg)?;
        floats("raan_deg", |e| e.raan_deg)?;
        floats("arg_perigee_deg", |e| e.arg_perigee_deg)?;
        floats("mean_anomaly_deg", |e| e.mean_anomaly_deg)?;
        floats("bstar_per_er", |e| e.bstar_per_er)?;
        Ok(columns)
    }

    fn age_warning(&self, at_unix_ns: i64) -> Option<String> {
        age_warning(&self.elements, Utc(at_unix_ns)).map(|w| w.to_string())
    }

    /// Return the points on the ground below all satellites: latitudes and longitudes [deg]; NaN: SGP4 cannot propagate the satellite.
    fn ground_points<'py>(&self, py: Python<'py>, at_unix_ns: i64) -> (Bound<'py, PyAny>, Bound<'py, PyAny>) {
        let (lat, lon): (Vec<f64>, Vec<f64>) = py.detach(|| {
            let mut block = EcefBlock::default();
            block.fill(&self.propagators, &[Utc(at_unix_ns)]);
            let below = |position: &[f64; 3]| if position[0].is_nan() { (f64::NAN, f64::NAN) } else { point(*position) };
            block.at(0).iter().map(below).unzip()
        });
        (lat.into_pyarray(py).into_any(), lon.into_pyarray(py).into_any())
    }

    fn failures(&self, py: Python<'_>, at_unix_ns: i64) -> Vec<String> {
        py.detach(|| self.propagators.iter().filter_map(|p| p.state(Utc(at_unix_ns)).err()).map(|e| e.to_string()).collect())
    }

    fn sky<'py>(&self, py: Python<'py>, place: (f64, f64, f64), at_unix_ns: i64, min_elevation_deg: f64) -> PyResult<Bound<'py, PyList>> {
        let site = site(place)?;
        let sky = py.detach(|| visibility::sky(site, Utc(at_unix_ns), &self.propagators, min_elevation_deg)).map_err(user_error)?;
        let rows = PyList::empty(py);
        for satellite in sky.visible {
            let row = PyDict::new(py);
            row.set_item("norad_id", satellite.norad_id)?;
            row.set_item("name", satellite.name)?;
            row.set_item("azimuth_deg", satellite.look.azimuth_deg)?;
            row.set_item("elevation_deg", satellite.look.elevation_deg)?;
            row.set_item("range_km", satellite.look.range_km)?;
            row.set_item("sunlit", satellite.sunlit)?;
            rows.append(row)?;
        }
        Ok(rows)
    }

    #[allow(clippy::too_many_arguments, reason = "the arrays of one table")]
    fn look_angles(
        &self,
        py: Python<'_>,
        place: (f64, f64, f64),
        times_unix_ns: PyReadonlyArray1<'_, i64>,
        first: usize,
        mut azimuth_deg: PyReadwriteArray2<'_, f64>,
        mut elevation_deg: PyReadwriteArray2<'_, f64>,
        mut range_km: PyReadwriteArray2<'_, f64>,
    ) -> PyResult<()> {
        let (site, times) = (site(place)?, utc(&times_unix_ns));
        let count = azimuth_deg.as_array().nrows();
        let satellites = self
            .propagators
            .get(first..first.saturating_add(count))
            .ok_or_else(|| user_error(format!("satellites {first} to {first}+{count}; expected at most {}", self.propagators.len())))?;
        let out = LookAnglesOut {
            azimuth_deg: azimuth_deg.as_slice_mut().map_err(user_error)?,
            elevation_deg: elevation_deg.as_slice_mut().map_err(user_error)?,
            range_km: range_km.as_slice_mut().map_err(user_error)?,
        };
        py.detach(|| look_angles(satellites, &SiteTimes::new(site, &times), out)).map_err(user_error)?;
        py.check_signals()
    }

    #[pyo3(signature = (origin, to, times_unix_ns, min_elevation_deg, on_progress=None))]
    fn routes<'py>(
        &self,
        py: Python<'py>,
        origin: (f64, f64, f64),
        to: (f64, f64, f64),
        times_unix_ns: PyReadonlyArray1<'_, i64>,
        min_elevation_deg: f64,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<RouteColumns<'py>> {
        let (from, to, times) = (site(origin)?, site(to)?, utc(&times_unix_ns));
        let network = Network::new(&self.propagators, &self.grids, min_elevation_deg).map_err(user_error)?;
        let (mut rtt_ms, mut hops, mut satellites) = (Vec::new(), Vec::new(), Vec::new());
        for slice in times.chunks(ROUTES_PER_SLICE) {
            for route in py.detach(|| route::routes(&network, from, to, slice)).map_err(user_error)? {
                rtt_ms.push(route.as_ref().map_or(f64::NAN, route::Route::rtt_ms));
                hops.push(route.as_ref().map_or(0, |r| r.hops() as u64));
                satellites
                    .push(route.map_or_else(Vec::new, |r| r.satellites.iter().map(|&s| self.elements[s as usize].norad_id).collect()));
            }
            report(py, on_progress.as_ref(), rtt_ms.len(), times.len())?;
        }
        Ok((rtt_ms.into_pyarray(py).into_any(), hops.into_pyarray(py).into_any(), satellites))
    }

    #[pyo3(signature = (places, times_unix_ns, min_elevation_deg, threads=None, on_progress=None))]
    fn all_pairs<'py>(
        &self,
        py: Python<'py>,
        places: Vec<(f64, f64, f64)>,
        times_unix_ns: PyReadonlyArray1<'_, i64>,
        min_elevation_deg: f64,
        threads: Option<usize>,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let sites = places.into_iter().map(site).collect::<PyResult<Vec<_>>>()?;
        let times = utc(&times_unix_ns);
        let network = Network::new(&self.propagators, &self.grids, min_elevation_deg).map_err(user_error)?;
        let (mut rtt_ms, mut hops, mut done) = (Vec::new(), Vec::new(), 0);
        for slice in times.chunks(STATES_PER_SLICE) {
            let states = py.detach(|| on_threads(threads, || route::all_pairs(&network, &sites, slice))).map_err(user_error)?;
            for state in &states {
                rtt_ms.extend_from_slice(state.rtt_ms());
                hops.extend_from_slice(state.hops());
            }
            done += slice.len();
            report(py, on_progress.as_ref(), done, times.len())?;
        }
        let shape = [times.len(), sites.len(), sites.len()];
        Ok((rtt_ms.into_pyarray(py).reshape(shape)?.into_any(), hops.into_pyarray(py).reshape(shape)?.into_any()))
    }

    #[pyo3(signature = (place, start_unix_ns, duration_ns, gateways, min_elevation_deg, gso_exclusion_deg, slot_ns, policy, seed, isl, track=None, on_progress=None))]
    #[allow(clippy::too_many_arguments, reason = "the fields of one request")]
    fn schedule(
        &self,
        py: Python<'_>,
        place: (f64, f64, f64),
        start_unix_ns: i64,
        duration_ns: u64,
        gateways: &str,
        min_elevation_deg: f64,
        gso_exclusion_deg: f64,
        slot_ns: Option<(u64, u64)>,
        policy: &str,
        seed: u64,
        isl: &str,
        track: Option<&str>,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let gateways: Vec<Gateway> = serde_json::from_str(gateways).map_err(user_error)?;
        let points: Option<Vec<TrackPoint>> = track.map(serde_json::from_str).transpose().map_err(user_error)?;
        let track = points.map(Track::new).transpose().map_err(user_error)?;
        let slots = slot_ns.map_or_else(|| Ok(SlotGrid::default()), |(period, phase)| SlotGrid::new(period, phase)).map_err(user_error)?;
        let request = ScheduleRequest {
            site: site(place)?,
            track: track.as_ref(),
            start: Utc(start_unix_ns),
            duration: Nanos(duration_ns),
            elements: &self.elements,
            gateways: &gateways,
            links: &self.lasers,
            isl: Isl::named(isl).map_err(user_error)?,
            min_elevation_deg,
            gso_exclusion_deg,
            slots,
            policy: schedule::policy(policy).map_err(user_error)?,
            seed,
        };
        let scheduler = py.detach(|| Scheduler::new(request)).map_err(user_error)?;
        let mut slots = Vec::with_capacity(scheduler.len());
        while slots.len() < scheduler.len() {
            let next = slots.len()..(slots.len() + SLOTS_PER_SLICE).min(scheduler.len());
            slots.extend(py.detach(|| scheduler.slots(next)).map_err(user_error)?);
            report(py, on_progress.as_ref(), slots.len(), scheduler.len())?;
        }
        serde_json::to_string(&scheduler.schedule(slots)).map_err(user_error)
    }
}

/// Return a moving terminal's position at a time. `track`: its points as JSON.
#[pyfunction]
pub fn track_position(track: &str, at_unix_ns: i64) -> PyResult<(f64, f64, f64)> {
    let points: Vec<TrackPoint> = serde_json::from_str(track).map_err(user_error)?;
    let site = Track::new(points).map_err(user_error)?.at(Utc(at_unix_ns));
    Ok((site.lat_deg, site.lon_deg, site.alt_m))
}

/// Return the scheduling policies: name and one-line description.
#[pyfunction]
pub fn scheduling_policies() -> Vec<(&'static str, &'static str)> {
    POLICIES.iter().map(|p| (p.name, p.description)).collect()
}
