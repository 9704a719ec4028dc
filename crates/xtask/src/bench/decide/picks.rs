//! P15: the pick alone. Its scripts take the rule of fair pools from `lua/roster_choose.lua` and keep the numbers of a
//! pool as roster does, under keys of their own.

use super::corp::{Shape, member};
use super::{CLIENTS, PIPELINE, Stand, words};
use crate::bench::Samples;

const INCR: &str = "#!lua\nlocal n = redis.call('INCR', KEYS[1])\nreturn n % tonumber(ARGV[1])\n";
const CHOOSE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../lua/roster_choose.lua"
));
const FAIR: &str = include_str!("lua/pick_fair.lua");
const LEAST: &str = include_str!("lua/pick_least.lua");
/// Where the first class stands among a pool's numbers, counted from 1, as Lua does; each takes two places.
const FIRST_CLASS: usize = 6;
/// Greater than any turn: see `lua/roster_state.lua`.
const TIE: u64 = 4_503_599_627_370_496;

pub(super) fn round(stand: &mut Stand<'_>, samples: &mut Samples) -> anyhow::Result<()> {
    let asking = stand.asking(CLIENTS, PIPELINE, 200_000);
    let incr = load(stand, INCR)?;
    let fair = load(
        stand,
        &FAIR.replace("-- include roster_choose.lua\n", CHOOSE),
    )?;
    let least = load(stand, LEAST)?;
    for (members, fair_row, least_row) in [
        (50, "P15-fair-50", "P15-least-50"),
        (1_000, "P15-fair-1000", "P15-least-1000"),
    ] {
        stand.store.empty()?;
        let n = members.to_string();
        let limit = stand.ask(asking, &words(&["EVALSHA", &incr, "1", "counter", &n]))?;
        fair_pool(
            stand,
            Shape {
                members,
                ..Shape::FAIR
            },
        )?;
        let ours = stand.ask(asking, &words(&["EVALSHA", &fair, "1", "fair"]))?;
        samples.add(fair_row, ours.beside(limit));
        least_pool(
            stand,
            Shape {
                members,
                ..Shape::LEAST
            },
        )?;
        let ours = stand.ask(asking, &words(&["EVALSHA", &least, "1", "least"]))?;
        samples.add(least_row, ours.beside(limit));
    }
    Ok(())
}

fn load(stand: &mut Stand<'_>, code: &str) -> anyhow::Result<String> {
    stand.store.ask(&["SCRIPT", "LOAD", code])
}

/// Nobody was picked yet: all scores are 0.
fn fair_pool(stand: &mut Stand<'_>, shape: Shape) -> anyhow::Result<()> {
    let weight = |number: u32| f64::from(shape.weight(number)) * 1_000.0;
    let sum: f64 = (0..shape.members).map(weight).sum();
    let mut pool = vec![0.0, 0.0, sum, 0.0, 1.0];
    for class in 1..=shape.weights {
        pool.extend([f64::from(class) * 1_000.0, 0.0]);
    }
    stand.store.set_bytes("fair", &packed(&pool))?;
    for number in 0..shape.members {
        let place = FIRST_CLASS + 2 * (shape.weight(number) as usize - 1);
        let member = member(number)?.to_string();
        let key = format!("fair:{place}");
        stand.store.ask::<()>(&["ZADD", &key, "0", &member])?;
    }
    Ok(())
}

fn least_pool(stand: &mut Stand<'_>, shape: Shape) -> anyhow::Result<()> {
    stand.store.set_bytes("least:turn", &packed(&[0.0]))?;
    for number in 0..shape.members {
        let member = member(number)?.to_string();
        let weight = f64::from(shape.weight(number)) * 1_000.0;
        let values = packed(&[0.0, TIE as f64, weight]);
        stand.store.set_bytes(&format!("least:{member}"), &values)?;
        let name = [&TIE.to_be_bytes(), member.as_bytes()].concat();
        stand.store.add_scored("least", 0.0, &name)?;
    }
    Ok(())
}

fn packed(numbers: &[f64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}
