//! A security report to a vendor about a hostile request. It is for the vendor alone: the request is in it.

use std::io;

use super::export::server_in_words;
use crate::hostile::{Effect, Named, Sent, Tried};
use workload::seed::Seed;

/// How many bytes of a request a line of the script has.
const LINE: usize = 64;

/// Writes the report, with what others saw, a line each.
pub(crate) fn write_hostile(
    tried: &Tried,
    sent: &Sent,
    seed: Seed,
    lines: &[String],
    out: &mut impl io::Write,
) -> io::Result<()> {
    let Named { kind, number } = sent.request;
    let (what, impact) = match sent.effect {
        Effect::HarmedOthers(_) => {
            ("harms the sequences of other clients", "the responses to other clients are wrong or missing")
        }
        Effect::EndedTheServer(_) | Effect::None => {
            ("ends the server", "the server is gone for every client, and all sequences are lost")
        }
    };
    writeln!(out, "# One HTTP request {what}\n")?;
    writeln!(out, "**Private: for the vendor alone.** It has a request that can be sent.\n")?;
    writeln!(out, "| | |\n|---|---|")?;
    writeln!(out, "| product and version | {} |", server_in_words(tried.server.as_deref()))?;
    writeln!(
        out,
        "| type | {} ({}); kind {kind}: {} |",
        kind.class(),
        kind.published(),
        kind.what().trim_end_matches('.')
    )?;
    writeln!(out, "| impact | anyone who reaches the HTTP port can send it; {impact} |")?;
    writeln!(out, "| seed and number | {seed}, {number} |\n")?;
    writeln!(out, "## What other clients saw\n\n```text\n{}\n```\n", lines.join("\n"))?;
    if let Some(configuration) = &tried.configuration {
        writeln!(out, "## Model configuration\n\n```protobuf\n{}\n```\n", configuration.trim_end())?;
    }
    writeln!(
        out,
        "## Proof of concept\n\nThe script needs Python alone. Its argument is HOST:PORT of the HTTP port.\n"
    )?;
    writeln!(out, "```python\nimport socket\nimport sys\nimport time\n\nPIECES = [")?;
    for piece in &sent.pieces {
        for (index, line) in piece.chunks(LINE).enumerate() {
            let start = if index == 0 { "    " } else { "    + " };
            writeln!(out, "{start}bytes.fromhex(\"{}\")", workload::inputs::hex(line))?;
        }
        writeln!(out, "    ,")?;
    }
    writeln!(out, "]\nhost, port = sys.argv[1].rsplit(\":\", 1)")?;
    writeln!(out, "with socket.create_connection((host, int(port)), timeout=10) as connection:")?;
    writeln!(out, "    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)")?;
    writeln!(out, "    for piece in PIECES:\n        connection.sendall(piece)\n        time.sleep(0.02)")?;
    writeln!(out, "    print(connection.recv(4096))\n```")
}
