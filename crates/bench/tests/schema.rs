//! The documented schema says what a report's JSON is, and nothing else passes for it.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing test may panic"
)]

#[path = "../../../tests/support/schema.rs"]
mod schema;

use scrim_bench::{Better, Machine, Peer, Study};
use serde_json::{Value, json};

use schema::violations;

fn documented() -> Value {
    serde_json::from_str(include_str!("../../../docs/benchmark.schema.json")).unwrap()
}

fn report() -> Value {
    const NOWHERE: Peer = Peer {
        program: "scrim-no-such-program",
        version_option: "--version",
        package: "none",
    };
    let mut study = Study::new(Machine::describe(&[NOWHERE]), 2);
    let ours = study.series("ours", "MB/s", Better::Higher, "known numbers");
    let peer = study.series("peer", "MB/s", Better::Higher, "known numbers");
    study.series("nothing", "cycles/B", Better::Lower, "no samples");
    for sample in [1.0, 2.5] {
        study.record(ours, sample);
        study.record(peer, 1.0);
    }
    study.ratio("ours_vs_peer", ours, peer, Some(1.0));
    study.finish().to_json()
}

#[test]
fn a_report_is_as_documented() {
    let report = report();
    assert_eq!(violations(&documented(), &report), [""; 0]);
    assert!(report["ratios"]["ours_vs_peer"].is_number());
    assert!(report["results"][2]["median"].is_null());
    assert!(!report["warnings"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_not_as_documented_is_found() {
    let broken: [(&str, Value); 9] = [
        ("/ratios/ours_vs_peer", json!("1.0")),
        ("/ratios", json!([])),
        ("/intervals/ours_vs_peer", json!([1.0])),
        ("/intervals/ours_vs_peer", json!([1.0, 2.0, 3.0])),
        ("/results/0/unit", json!("MiB/s")),
        ("/results/0/better", json!("sideways")),
        ("/results/0/samples", json!([null])),
        ("/machine/cores", json!(0)),
        ("/warnings", json!({})),
    ];
    for (at, value) in broken {
        let mut report = report();
        *report.pointer_mut(at).unwrap() = value;
        assert_eq!(violations(&documented(), &report).len(), 1, "{at}");
    }
    for at in ["", "/results/0", "/machine"] {
        let mut more = report();
        more.pointer_mut(at).unwrap()["more"] = json!(1);
        assert_eq!(violations(&documented(), &more).len(), 1, "{at}");
        let mut less = report();
        let members = less.pointer_mut(at).unwrap().as_object_mut().unwrap();
        let first = members.keys().next().unwrap().clone();
        members.remove(&first);
        assert_eq!(violations(&documented(), &less).len(), 1, "{at}");
    }
}

#[test]
fn a_schema_that_asks_for_more_than_is_checked_is_found() {
    for schema in [
        json!({"pattern": "x"}),
        json!({"$ref": "#/$defs/none"}),
        json!(true),
    ] {
        assert_eq!(violations(&schema, &json!({})).len(), 1, "{schema}");
    }
}
