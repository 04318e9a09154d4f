//! Checks the `eval` tool: starts its worker and evaluates an expression.

use stead_eval::{EvalParams, Evaluator, NoFiles};

use super::Finding;

const WHAT: &str = "eval worker";
const ADVICE: &str = "put stead-eval-worker beside stead (cargo xtask eval-worker); without it the tool `eval` fails";

pub(super) fn look() -> Vec<Finding> {
    let evaluator = Evaluator::beside_this_program();
    let program = evaluator.program().display().to_string();
    if !evaluator.program().is_file() {
        return vec![Finding::warned(WHAT, format!("there is no {program}"), ADVICE)];
    }
    let answer = ask(&evaluator);
    evaluator.retire();
    vec![match answer {
        Ok(answer) if answer == "42" => Finding::good(WHAT, format!("{program} starts and computes")),
        Ok(answer) => Finding::warned(WHAT, format!("{program} computed 6 * 7 as {answer:?}"), ADVICE),
        Err(reason) => Finding::warned(WHAT, format!("{program} does not start: {reason}"), ADVICE),
    }]
}

fn ask(evaluator: &Evaluator) -> Result<String, String> {
    let params: EvalParams =
        serde_json::from_value(serde_json::json!({"code": "6 * 7"})).map_err(|error| error.to_string())?;
    let evaluation = evaluator.evaluate(&params, &mut NoFiles).map_err(|error| error.to_string())?;
    Ok(evaluation.result.value_repr.unwrap_or(evaluation.message))
}
