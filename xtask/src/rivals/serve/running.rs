//! Contenders that run, and what was measured of them.

use std::time::Duration;

use scrim_bench::{SeriesId, Study};

use super::super::room::Room;
use super::contender::Served;
use super::figure::Figure;
use super::load::{Load, Measured};
use super::site::Site;
use crate::error::Error;

/// Series with the samples of a contender, unless it failed.
pub(super) fn series(
    running: &[Running],
    name: &str,
    load: Load,
    index: usize,
    figure: Figure,
) -> Option<SeriesId> {
    let side = running.iter().find(|side| side.name == name)?;
    if side.failed.contains(&load.name()) {
        return None;
    }
    let mut all = side.series[index].iter();
    all.find_map(|&(one, id)| (one == figure).then_some(id))
}

/// A contender's servers, and where its samples go.
pub(super) struct Running {
    pub(super) name: &'static str,
    served: Served,
    /// Names of the loads that have failed.
    failed: Vec<String>,
    /// Series of each load.
    pub(super) series: Vec<Vec<(Figure, SeriesId)>>,
}

impl Running {
    pub(super) fn new(name: &'static str, served: Served) -> Self {
        Self {
            name,
            served,
            failed: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Runs `load` once. If it fails, this contender does not get it again, and the study has a warning.
    pub(super) fn take_turn(
        &mut self,
        room: &Room,
        site: &Site,
        study: &mut Study,
        load: Load,
        time: Duration,
    ) -> Result<Option<Measured>, Error> {
        room.check()?;
        if self.failed.contains(&load.name()) {
            return Ok(None);
        }
        match load.run(site, &self.served, time) {
            Ok(measured) => Ok(Some(measured)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                study.warn(format!(
                    "{} failed on {} ({error}), which is left out",
                    self.name,
                    load.name()
                ));
                self.failed.push(load.name());
                Ok(None)
            }
        }
    }
}
