//! Limits of the tools: the presets, the declaration of an agent type, and the values that one call
//! has to obey.
//!
//! [`LimitsConfig`] is the declaration. [`ToolLimits`] is its resolved form, which the first event
//! of a session records. [`CallLimits`] is what a call obeys; a profile can make it stricter.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProviderName;
use crate::parse::{FieldPath, Fields, Read, words};

/// Range of each limit in a declaration.
pub const WRITE_RANGE: (u64, u64) = (1, 16_777_216);
pub const DEPTH_RANGE: (u64, u64) = (1, 256);
/// A name in a Linux filesystem has at most 255 bytes.
pub const SEGMENT_RANGE: (u64, u64) = (1, 255);
/// The kernel passes at most 131,071 bytes in one argument of a program.
pub const COMMAND_RANGE: (u64, u64) = (1, 131_071);
/// A box sends its answer in one frame of at most 8 MiB.
pub const OUTPUT_RANGE: (u64, u64) = (1_024, 4_194_304);

words!(
    /// A named set of limits.
    Preset, "preset", {
        /// The WINK tool contract: ASCII paths and commands. Counts characters.
        Wink = "wink",
        /// For real repositories: UTF-8 paths and commands. Counts bytes.
        Open = "open",
    }
);

impl Preset {
    /// The preset of a workspace whose agent type names none.
    pub const fn of_provider(provider: ProviderName) -> Self {
        match provider {
            ProviderName::Memory => Self::Wink,
            ProviderName::Native | ProviderName::Podman | ProviderName::Kubernetes => Self::Open,
        }
    }
}

/// A limit in a declaration, with the name under which it was given. Reading it back returns the
/// same name. The preset decides what the number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// The name that ends in `_bytes`.
    Bytes(u64),
    /// The former name, which ends in `_chars`.
    Chars(u64),
}

impl Given {
    const fn value(self) -> u64 {
        match self {
            Self::Bytes(value) | Self::Chars(value) => value,
        }
    }

    fn clamp(self, (least, most): (u64, u64)) -> Self {
        match self {
            Self::Bytes(value) => Self::Bytes(value.clamp(least, most)),
            Self::Chars(value) => Self::Chars(value.clamp(least, most)),
        }
    }

    fn bytes(given: Option<Self>) -> Option<u64> {
        given.and_then(|given| if let Self::Bytes(value) = given { Some(value) } else { None })
    }

    fn chars(given: Option<Self>) -> Option<u64> {
        given.and_then(|given| if let Self::Chars(value) = given { Some(value) } else { None })
    }

    fn of(bytes: Option<u64>, chars: Option<u64>) -> Option<Self> {
        bytes.map(Self::Bytes).or_else(|| chars.map(Self::Chars))
    }
}

/// The limits that an agent type declares. Absent ones come from the preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct LimitsConfig {
    pub preset: Option<Preset>,
    write: Option<Given>,
    path_depth: Option<u64>,
    segment: Option<Given>,
    command: Option<Given>,
    output_bytes: Option<u64>,
}

impl LimitsConfig {
    /// Returns the limits of a workspace that `provider` makes.
    pub fn resolve(&self, provider: ProviderName) -> ToolLimits {
        let preset = self.preset.unwrap_or(Preset::of_provider(provider));
        let base = ToolLimits::of(preset);
        ToolLimits {
            preset: Some(preset),
            write: self.write.map_or(base.write, Given::value),
            path_depth: self.path_depth.unwrap_or(base.path_depth),
            segment: self.segment.map_or(base.segment, Given::value),
            command: self.command.map_or(base.command, Given::value),
            output_bytes: self.output_bytes.unwrap_or(base.output_bytes),
        }
    }

    /// Converts limits that a version without presets stored. That version wrote its defaults out,
    /// and its `output_bytes` bounded each stream of a command.
    pub(super) fn of_older_version(self) -> Self {
        if self == Self::OLDER_DEFAULTS {
            return Self::default();
        }
        let in_chars = |given: Option<Given>| matches!(given, Some(Given::Chars(_)));
        if self.preset.is_some() || ![self.write, self.segment, self.command].into_iter().any(in_chars) {
            return self;
        }
        Self {
            preset: None,
            write: self.write.map(|given| given.clamp(WRITE_RANGE)),
            path_depth: self.path_depth.map(|depth| depth.clamp(DEPTH_RANGE.0, DEPTH_RANGE.1)),
            segment: self.segment.map(|given| given.clamp(SEGMENT_RANGE)),
            command: self.command.map(|given| given.clamp(COMMAND_RANGE)),
            output_bytes: self.output_bytes.map(whole_answer),
        }
    }

    const OLDER_DEFAULTS: Self = Self {
        preset: None,
        write: Some(Given::Chars(ToolLimits::UNNAMED.write)),
        path_depth: Some(ToolLimits::UNNAMED.path_depth),
        segment: Some(Given::Chars(ToolLimits::UNNAMED.segment)),
        command: Some(Given::Chars(ToolLimits::UNNAMED.command)),
        output_bytes: Some(ToolLimits::UNNAMED.output_bytes),
    };
}

impl Read for LimitsConfig {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let limits = Self {
            preset: fields.optional("preset"),
            write: given(&mut fields, "write_bytes", "write_chars", WRITE_RANGE),
            path_depth: within(&mut fields, "path_depth", DEPTH_RANGE),
            segment: given(&mut fields, "segment_bytes", "segment_chars", SEGMENT_RANGE),
            command: given(&mut fields, "command_bytes", "command_chars", COMMAND_RANGE),
            output_bytes: within(&mut fields, "output_bytes", OUTPUT_RANGE),
        };
        fields.done();
        Some(limits)
    }
}

fn within(fields: &mut Fields<'_, '_>, key: &'static str, (least, most): (u64, u64)) -> Option<u64> {
    let given = fields.has(key);
    let number = fields.number_or(key, least..=most, least);
    given.then_some(number)
}

fn given(fields: &mut Fields<'_, '_>, bytes: &'static str, chars: &'static str, range: (u64, u64)) -> Option<Given> {
    if fields.has(bytes) && fields.has(chars) {
        fields.fail(chars, format!("is the former name of {bytes}; give one of them"));
    }
    let (new, old) = (within(fields, bytes, range), within(fields, chars, range));
    Given::of(new, old)
}

/// The JSON form of limits. Old journals have no preset and the former names.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preset: Option<Preset>,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The numbers under their present and former names, in the order of old journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Numbers {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_chars: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_depth: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment_chars: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_chars: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_bytes: Option<u64>,
}

impl From<Stored> for LimitsConfig {
    fn from(Stored { preset, numbers }: Stored) -> Self {
        Self {
            preset,
            write: Given::of(numbers.write_bytes, numbers.write_chars),
            path_depth: numbers.path_depth,
            segment: Given::of(numbers.segment_bytes, numbers.segment_chars),
            command: Given::of(numbers.command_bytes, numbers.command_chars),
            output_bytes: numbers.output_bytes,
        }
    }
}

impl From<LimitsConfig> for Stored {
    fn from(config: LimitsConfig) -> Self {
        let LimitsConfig { preset, write, path_depth, segment, command, output_bytes } = config;
        let numbers = Numbers {
            write_chars: Given::chars(write),
            write_bytes: Given::bytes(write),
            path_depth,
            segment_chars: Given::chars(segment),
            segment_bytes: Given::bytes(segment),
            output_bytes,
            command_chars: Given::chars(command),
            command_bytes: Given::bytes(command),
        };
        Self { preset, numbers }
    }
}

/// Converts a limit of one output stream to one of the whole answer.
fn whole_answer(stream_bytes: u64) -> u64 {
    stream_bytes.saturating_mul(2).clamp(OUTPUT_RANGE.0, OUTPUT_RANGE.1)
}

/// The resolved limits of a session, as its first event records them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct ToolLimits {
    /// `None` in a journal of a version without presets. Such limits count characters, allow only
    /// ASCII, and `output_bytes` bounds each stream of a command.
    preset: Option<Preset>,
    write: u64,
    path_depth: u64,
    segment: u64,
    command: u64,
    output_bytes: u64,
}

impl ToolLimits {
    /// The defaults of versions without presets.
    const UNNAMED: Self =
        Self { preset: None, write: 48_000, path_depth: 16, segment: 80, command: 4_096, output_bytes: 32_768 };

    pub const fn of(preset: Preset) -> Self {
        match preset {
            Preset::Wink => Self { preset: Some(preset), output_bytes: 65_536, ..Self::UNNAMED },
            Preset::Open => Self {
                preset: Some(preset),
                write: 1_048_576,
                path_depth: 64,
                segment: 255,
                command: 131_071,
                output_bytes: 65_536,
            },
        }
    }

    pub fn preset(&self) -> Preset {
        self.preset.unwrap_or(Preset::Wink)
    }

    /// Characters or bytes that one call may write: characters in the preset `wink`.
    pub fn write(&self) -> u64 {
        self.write
    }

    /// Returns the limits of a call. A call through a profile with a preset of its own obeys the
    /// stricter of each limit.
    pub fn for_call(&self, profile: Option<Preset>) -> CallLimits {
        let own = self.own();
        match profile {
            Some(preset) => own.stricter(Self::of(preset).own()),
            None => own,
        }
    }

    fn own(&self) -> CallLimits {
        let (charset, write_chars, write_bytes) = match self.preset() {
            Preset::Wink => (Charset::Ascii, self.write, u64::MAX),
            Preset::Open => (Charset::Utf8, u64::MAX, self.write),
        };
        CallLimits {
            charset,
            write_chars,
            write_bytes,
            path_depth: self.path_depth,
            segment_bytes: self.segment,
            command_bytes: self.command,
            output_bytes: match self.preset {
                Some(_) => self.output_bytes,
                None => whole_answer(self.output_bytes),
            },
        }
    }

    fn numbers(self) -> Numbers {
        let Self { preset, write, path_depth, segment, command, output_bytes } = self;
        let (path_depth, output_bytes) = (Some(path_depth), Some(output_bytes));
        let (write, segment, command) = (Some(write), Some(segment), Some(command));
        match preset {
            None => Numbers {
                write_chars: write,
                path_depth,
                segment_chars: segment,
                output_bytes,
                command_chars: command,
                ..Numbers::default()
            },
            Some(_) => Numbers {
                write_bytes: write,
                path_depth,
                segment_bytes: segment,
                output_bytes,
                command_bytes: command,
                ..Numbers::default()
            },
        }
    }
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self::of(Preset::Wink)
    }
}

impl From<Stored> for ToolLimits {
    fn from(Stored { preset, numbers }: Stored) -> Self {
        let base = preset.map_or(Self::UNNAMED, Self::of);
        Self {
            preset,
            write: numbers.write_bytes.or(numbers.write_chars).unwrap_or(base.write),
            path_depth: numbers.path_depth.unwrap_or(base.path_depth),
            segment: numbers.segment_bytes.or(numbers.segment_chars).unwrap_or(base.segment),
            command: numbers.command_bytes.or(numbers.command_chars).unwrap_or(base.command),
            output_bytes: numbers.output_bytes.unwrap_or(base.output_bytes),
        }
    }
}

impl From<ToolLimits> for Stored {
    fn from(limits: ToolLimits) -> Self {
        Self { preset: limits.preset, numbers: limits.numbers() }
    }
}

/// The characters of new paths and of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charset {
    Ascii,
    Utf8,
}

impl Charset {
    /// The unit of lengths in messages.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Ascii => "characters",
            Self::Utf8 => "bytes",
        }
    }
}

/// The limits that one call has to obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    pub charset: Charset,
    /// A write has to obey both limits. A limit that does not apply is the largest number.
    pub write_chars: u64,
    pub write_bytes: u64,
    pub path_depth: u64,
    /// With [`Charset::Ascii`], bytes are characters.
    pub segment_bytes: u64,
    pub command_bytes: u64,
    /// Maximum size of the whole answer.
    pub output_bytes: u64,
}

impl CallLimits {
    /// Maximum number of bytes of each output stream of a command.
    pub const fn stream_bytes(&self) -> u64 {
        self.output_bytes / 2
    }

    fn stricter(self, other: Self) -> Self {
        Self {
            charset: self.charset.min(other.charset),
            write_chars: self.write_chars.min(other.write_chars),
            write_bytes: self.write_bytes.min(other.write_bytes),
            path_depth: self.path_depth.min(other.path_depth),
            segment_bytes: self.segment_bytes.min(other.segment_bytes),
            command_bytes: self.command_bytes.min(other.command_bytes),
            output_bytes: self.output_bytes.min(other.output_bytes),
        }
    }

    /// Maximum size of the arguments of a call, in bytes of JSON. A character or byte takes at most
    /// six bytes of JSON. The rest is room for paths and patterns.
    pub fn argument_bytes(&self) -> u64 {
        6 * (2 * self.write_chars.min(self.write_bytes) + self.command_bytes) + 64 * 1024
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        ToolLimits::default().for_call(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::read;
    use serde_json::json;

    /// Reads a declaration, stores it and returns the stored form.
    fn stored(value: Value) -> Value {
        let config: LimitsConfig = read(value).unwrap();
        let stored = serde_json::to_value(config).unwrap();
        let again: LimitsConfig = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(again, config);
        stored
    }

    #[test]
    fn a_declaration_keeps_the_names_it_was_given_with() {
        for value in [
            json!({"preset": "open", "write_bytes": 5, "path_depth": 4, "segment_bytes": 9, "command_bytes": 7}),
            json!({"write_chars": 5, "segment_chars": 9, "output_bytes": 2048, "command_chars": 7}),
            json!({}),
        ] {
            assert_eq!(stored(value.clone()), value);
        }
    }

    #[test]
    fn both_names_of_one_limit_and_impossible_numbers_are_refused() {
        for (value, message) in [
            (
                json!({"write_bytes": 1, "write_chars": 1}),
                "write_chars: is the former name of write_bytes; give one of them",
            ),
            (json!({"command_bytes": 131_072}), "command_bytes: must be between 1 and 131071, not 131072"),
            (json!({"segment_chars": 256}), "segment_chars: must be between 1 and 255, not 256"),
            (json!({"preset": "wide"}), "preset: unknown preset \"wide\" (valid: wink, open)"),
        ] {
            assert_eq!(read::<LimitsConfig>(value).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn recorded_limits_keep_their_bytes_and_their_meaning() {
        let old =
            r#"{"write_chars":48000,"path_depth":16,"segment_chars":80,"output_bytes":32768,"command_chars":4096}"#;
        let limits: ToolLimits = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&limits).unwrap(), old);
        assert_eq!(limits.for_call(None), CallLimits::default());
        for preset in Preset::ALL {
            let text = serde_json::to_string(&ToolLimits::of(*preset)).unwrap();
            assert_eq!(serde_json::from_str::<ToolLimits>(&text).unwrap(), ToolLimits::of(*preset));
        }
    }

    #[test]
    fn stored_numbers_of_an_older_version_are_clamped() {
        let large = json!({
            "write_chars": 1 << 30, "path_depth": 1_000, "segment_chars": 4_096, "output_bytes": 1 << 30,
            "command_chars": 1 << 20
        });
        let limits = serde_json::from_value::<LimitsConfig>(large).unwrap().of_older_version();
        let expected = json!({
            "write_chars": WRITE_RANGE.1, "path_depth": DEPTH_RANGE.1, "segment_chars": SEGMENT_RANGE.1,
            "output_bytes": OUTPUT_RANGE.1, "command_chars": COMMAND_RANGE.1
        });
        assert_eq!(stored(expected.clone()), expected);
        assert_eq!(serde_json::to_value(limits).unwrap(), expected);
    }

    #[test]
    fn the_wink_profile_takes_the_stricter_of_each() {
        let declared: LimitsConfig =
            read(json!({"write_bytes": 60_000, "path_depth": 4, "command_bytes": 100})).unwrap();
        let limits = declared.resolve(ProviderName::Native).for_call(Some(Preset::Wink));
        let wink = CallLimits::default();
        assert_eq!(limits, CallLimits { write_bytes: 60_000, path_depth: 4, command_bytes: 100, ..wink });
    }
}
