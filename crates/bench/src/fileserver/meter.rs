//! Figures of one phase: its rate, and what the processors, the memory and a bystander show meanwhile.

use super::bystander::Bystander;
use super::generator::Work;
use super::night::{PhaseResult, TurnResult};
use super::phase::Phase;
use super::sampler::Sampler;

/// Measures phases of a turn.
pub(super) struct Meter<'a> {
    sampler: Sampler,
    bystander: Bystander,
    turn: &'a mut TurnResult,
}

impl<'a> Meter<'a> {
    pub(super) fn new(sampler: Sampler, bystander: Bystander, turn: &'a mut TurnResult) -> Self {
        Self {
            sampler,
            bystander,
            turn,
        }
    }

    /// Forgets everything before the next phase.
    pub(super) fn begin(&mut self) {
        self.bystander.take();
        self.sampler.begin();
    }

    /// Notes whether caches were dropped before a phase that reads.
    pub(super) fn note_caches(&mut self, are_dropped: bool) {
        self.turn.caches_kept |= !are_dropped;
    }

    /// Replaces the rates by those that another program has measured; phases that it has none of are left out.
    pub(super) fn replace_rates(&mut self, rates: &[(Phase, f64)]) {
        let rate_of = |phase| {
            rates
                .iter()
                .find(|(one, _)| *one == phase)
                .map(|(_, rate)| *rate)
        };
        self.turn.phases.retain_mut(|result| {
            let rate = rate_of(result.phase);
            result.rate = rate.unwrap_or(result.rate);
            rate.is_some()
        });
    }

    /// Ends a phase, and keeps its result.
    pub(super) fn end(&mut self, phase: Phase, work: Work) {
        let usage = self.sampler.end();
        let mut cpu: Vec<(String, f64)> = usage
            .cpu
            .into_iter()
            .map(|(name, time)| (name, time.as_secs_f64()))
            .collect();
        cpu.push(("generator".to_owned(), work.cpu.as_secs_f64()));
        let latency = self.bystander.take();
        self.turn.phases.push(PhaseResult {
            phase,
            rate: work.rate(phase),
            seconds: work.wall.as_secs_f64(),
            amount: work.amount,
            cpu,
            usage: usage.whole,
            over_time: usage.over_time,
            bystander: (latency.reads > 0).then_some(latency),
        });
    }
}
