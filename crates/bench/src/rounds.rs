//! Order in which contenders run.

/// Rounds from which on a study is not warned about.
pub const ROUNDS: usize = 15;
/// Rounds from which on a study is not warned about, where one round takes a minute or more.
pub const ROUNDS_WHEN_LONG: usize = 5;

/// One measurement to make: `contender` on `load`, in `round`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the round, counted from zero.
    pub round: usize,
    /// Index of the load, likewise.
    pub load: usize,
    /// Index of the contender, likewise.
    pub contender: usize,
}

/// Every contender on every load in every round, in the order in which they run.
///
/// Within a round the contenders of one load follow each other directly, so that what is compared
/// is close in time. Each round starts with another contender, and odd rounds go backwards:
/// two contenders run A B, B A, B A, A B. So no contender always runs first, or always after the same one.
pub fn turns(rounds: usize, loads: usize, contenders: usize) -> impl Iterator<Item = Turn> {
    (0..rounds).flat_map(move |round| {
        (0..loads).flat_map(move |load| {
            (0..contenders).map(move |place| Turn {
                round,
                load,
                contender: contender_at(place, round, contenders),
            })
        })
    })
}

fn contender_at(place: usize, round: usize, contenders: usize) -> usize {
    let place = if round % 2 == 1 {
        contenders - 1 - place
    } else {
        place
    };
    (place + round / 2) % contenders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(rounds: usize, contenders: usize) -> Vec<Vec<usize>> {
        (0..rounds)
            .map(|round| {
                turns(rounds, 1, contenders)
                    .filter(|turn| turn.round == round)
                    .map(|turn| turn.contender)
                    .collect()
            })
            .collect()
    }

    #[test]
    fn the_starting_order_rotates() {
        assert_eq!(orders(4, 2), [[0, 1], [1, 0], [1, 0], [0, 1]]);
        assert_eq!(orders(4, 3), [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]]);
    }

    #[test]
    fn over_a_full_cycle_everybody_is_in_every_place_as_often() {
        let orders = orders(12, 6);
        for place in 0..6 {
            for contender in 0..6 {
                let times = orders.iter().filter(|o| o[place] == contender).count();
                assert_eq!(times, 2, "contender {contender} in place {place}");
            }
        }
    }

    #[test]
    fn the_contenders_of_a_load_follow_each_other() {
        let loads: Vec<_> = turns(1, 3, 2).map(|turn| turn.load).collect();
        assert_eq!(loads, [0, 0, 1, 1, 2, 2]);
        assert_eq!(turns(3, 4, 0).count(), 0);
    }
}
