//! Schema of `stead_core::config::LimitsConfig`.

use serde_json::Value;
use stead_core::config::tool_limits::{COMMAND_RANGE, DEPTH_RANGE, OUTPUT_RANGE, SEGMENT_RANGE, WRITE_RANGE};

use super::{described, named, object, or_null, properties, whole};

pub(super) fn tool_limits() -> Value {
    let within = |(least, most): (u64, u64)| whole(least, most);
    let schema = object(
        &[],
        properties! {
            "preset": "Limits that apply where no other is given. Absent for `wink` with the provider `memory` and `open` with others.", or_null(named("Preset"));
            "write_bytes": "Length of one write: 48,000 in `wink`, 1,048,576 in `open`.", or_null(within(WRITE_RANGE));
            "path_depth": "Segments of a new path: 16 in `wink`, 64 in `open`.", or_null(within(DEPTH_RANGE));
            "segment_bytes": "Length of one segment of a new path: 80 in `wink`, 255 in `open`.", or_null(within(SEGMENT_RANGE));
            "command_bytes": "Length of a command: 4,096 in `wink`, 131,071 in `open`.", or_null(within(COMMAND_RANGE));
            "output_bytes": "Bytes of one answer: 65,536. Each output stream of a command has half of it.", or_null(within(OUTPUT_RANGE));
        },
    );
    let description = "Limits of the tools, independent of the box. In `wink`, paths and commands are ASCII, and \
                       lengths count characters. In `open`, they are UTF-8, and lengths count bytes. The former \
                       names `write_chars`, `segment_chars` and `command_chars` are read as well.";
    described(description, schema)
}
