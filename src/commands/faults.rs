//! `sequence-stress faults`.

use super::output::print_list;
use reference::Fault;

/// Lists what the reference server can do wrong.
pub(super) fn list() {
    let mut group = "";
    print_list(Fault::ALL.into_iter().flat_map(|fault| {
        let heading = (group != fault.group()).then(|| (String::new(), format!("{} faults", fault.group())));
        group = fault.group();
        heading.into_iter().chain([(format!("  {fault:<26}"), format!("{} ({})", fault.what(), fault.class()))])
    }));
}
