//! Results that were read from files, as CSV.

use serde::Deserialize;
use serde_json::Value;

use super::{limit, series};

/// The rows of a result: its file, or its scenario in a file, and a table with a line of titles.
type Table = (String, Vec<u8>);

/// The series of runs, or the trials of searches, as one table. Where there are several results, the first column says of which one a row is.
///
/// # Errors
/// When a result has neither, or results have different columns.
pub(crate) fn to_csv(results: &[(&str, &Value)]) -> Result<Vec<u8>, String> {
    let tables = results.iter().map(|(name, document)| tables(name, document)).collect::<Result<Vec<_>, _>>()?.concat();
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let mut titles = None;
    for (name, table) in &tables {
        let mut reader = ::csv::Reader::from_reader(&table[..]);
        let own = reader.headers().expect("it was written just now").clone();
        let mut write = |label: &str, record: &::csv::StringRecord| {
            let labelled = (tables.len() > 1).then_some(label).into_iter().chain(record);
            writer.write_record(labelled).expect("memory takes it");
        };
        match &titles {
            None => {
                write("result", &own);
                titles = Some(own);
            }
            Some(titles) if *titles == own => {}
            Some(_) => {
                return Err(format!("{name} has other columns than the results before it: print them one by one"));
            }
        }
        for record in reader.records() {
            write(name, &record.expect("it was written just now"));
        }
    }
    Ok(writer.into_inner().expect("memory takes it"))
}

fn tables(name: &str, document: &Value) -> Result<Vec<Table>, String> {
    let unreadable = |error: serde_json::Error| format!("{name} is no result of this version: {error}");
    if let Some(rows) = document.get("series") {
        let rows = Vec::<series::Row>::deserialize(rows).map_err(unreadable)?;
        return Ok(vec![(name.to_owned(), series::written(rows))]);
    }
    if let Some(rows) = document.get("trials") {
        let rows = Vec::<limit::Row>::deserialize(rows).map_err(unreadable)?;
        return Ok(vec![(name.to_owned(), limit::written(rows))]);
    }
    let scenarios = document.get("scenarios").and_then(Value::as_array);
    let scenarios = scenarios.ok_or_else(|| format!("{name} has no series of a run and no trials of a search"))?;
    let of_a_scenario = |row: &Value| {
        let scenario = row.get("name").and_then(Value::as_str).unwrap_or_default();
        Some(tables(&format!("{name}: {scenario}"), row.get("result")?))
    };
    scenarios.iter().filter_map(of_a_scenario).collect::<Result<Vec<_>, _>>().map(|tables| tables.concat())
}
