//! The functions of the code that the evaluator answers.

use monty_types::{CallArgs, ExcType, ExtFunctionResult, MontyException, MontyObject};
use stead_eval::WriteMode;
use stead_eval::protocol::{Reply, Say};

use crate::link::Link;

/// Maximum bytes of one `write_text` argument. The evaluator enforces the size of files.
const MOST_WRITTEN: usize = 4 << 20;
/// The functions that the evaluator answers.
pub(crate) const READ_TEXT: &str = "read_text";
pub(crate) const WRITE_TEXT: &str = "__stead_write_text";

pub(crate) fn exception(kind: ExcType, message: impl Into<String>) -> MontyException {
    MontyException::new(kind, Some(message.into()))
}

/// Answers a call that the interpreter has no function for. Only two names are functions of ours;
/// any other name is undefined.
pub(crate) fn host_call(name: &str, args: &CallArgs, link: &mut Link) -> ExtFunctionResult {
    let say = match name {
        READ_TEXT => read_request(args),
        WRITE_TEXT => write_request(args),
        _ => return ExtFunctionResult::NotFound(name.to_owned()),
    };
    match say.and_then(|say| ask(&say, link)) {
        Ok(value) => ExtFunctionResult::Return(value),
        Err(error) => ExtFunctionResult::Error(error),
    }
}

fn read_request(args: &CallArgs) -> Result<Say, MontyException> {
    if args.args().len() + args.kwargs().len() != 1 {
        return Err(exception(ExcType::TypeError, "read_text() takes one argument: path"));
    }
    Ok(Say::Read { path: text_argument(args, 0, "path")? })
}

fn write_request(args: &CallArgs) -> Result<Say, MontyException> {
    let wrong = |()| exception(ExcType::ValueError, "mode must be one of create, overwrite, append");
    let mode = text_argument(args, 2, "mode")?.parse::<WriteMode>().map_err(wrong)?;
    let (path, content) = (text_argument(args, 0, "path")?, text_argument(args, 1, "content")?);
    if content.len() > MOST_WRITTEN {
        return Err(exception(ExcType::ValueError, "content is longer than any file may be"));
    }
    Ok(Say::Write { path, content, mode })
}

fn text_argument(args: &CallArgs, index: usize, name: &str) -> Result<String, MontyException> {
    let value = args.arg(index).or_else(|| args.kwarg(name));
    let value = value.ok_or_else(|| exception(ExcType::TypeError, format!("{name} is missing")))?;
    let wrong = || exception(ExcType::TypeError, format!("{name} must be a str, not {}", value.type_name()));
    value.as_str().map(str::to_owned).ok_or_else(wrong)
}

fn ask(say: &Say, link: &mut Link) -> Result<MontyObject, MontyException> {
    match link.ask(say) {
        Some(Reply::Text { text }) => Ok(MontyObject::string(text)),
        Some(Reply::Written { .. }) => Ok(MontyObject::none()),
        Some(Reply::Refused { code, message }) => Err(exception(kind(&code), message)),
        None => Err(exception(ExcType::OSError, "the files cannot be reached")),
    }
}

/// The exception that tells of a refusal by the file tools.
fn kind(code: &str) -> ExcType {
    match code {
        "not_found" => ExcType::FileNotFoundError,
        "exists" => ExcType::FileExistsError,
        "is_directory" => ExcType::IsADirectoryError,
        "not_directory" => ExcType::NotADirectoryError,
        "escapes" | "special_file" | "read_only" | "tool_not_enabled" => ExcType::PermissionError,
        "invalid_argument" | "too_large" | "binary" => ExcType::ValueError,
        _ => ExcType::OSError,
    }
}
