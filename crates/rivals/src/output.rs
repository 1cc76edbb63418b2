//! Results that are handed to `xtask`.

use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct Output {
    versions: Vec<(&'static str, String)>,
    missing: Vec<(&'static str, String)>,
    series: Vec<Series>,
    warnings: Vec<String>,
}

struct Series {
    name: String,
    workload: String,
    samples: Vec<f64>,
}

/// Names a series of one [`Output`].
#[derive(Clone, Copy)]
pub(crate) struct SeriesId(usize);

impl Output {
    pub(crate) fn found(&mut self, name: &'static str, version: String) {
        self.versions.push((name, version));
    }

    pub(crate) fn missing(&mut self, name: &'static str, why: String) {
        self.missing.push((name, why));
    }

    pub(crate) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(crate) fn series(&mut self, name: String, workload: String) -> SeriesId {
        self.series.push(Series {
            name,
            workload,
            samples: Vec::new(),
        });
        SeriesId(self.series.len() - 1)
    }

    pub(crate) fn record(&mut self, series: SeriesId, sample: f64) {
        if let Some(series) = self.series.get_mut(series.0) {
            series.samples.push(sample);
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let series: Vec<_> = self.series.iter().map(Series::to_json).collect();
        json!({
            "versions": texts(&self.versions),
            "missing": texts(&self.missing),
            "series": series,
            "warnings": self.warnings,
        })
    }
}

impl Series {
    fn to_json(&self) -> Value {
        json!({"name": self.name, "workload": self.workload, "samples": self.samples})
    }
}

fn texts(pairs: &[(&'static str, String)]) -> Map<String, Value> {
    pairs
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str())))
        .collect()
}
