//! Questions to a box's resolver. Whatever comes, the answer is small, belongs to the question and
//! is an answer, so that no resolver answers it again.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use stead_egress::dns::{Answered, MOST_BYTES, Question, Unanswerable};

fuzz_target!(|input: &[u8]| {
    let answers = match Question::read(input) {
        Ok(question) => {
            let address = Answered::Address(Ipv4Addr::new(198, 18, 1, 2));
            [address, Answered::Nothing, Answered::NoSuchName, Answered::Failed].map(|answered| question.answer(answered)).to_vec()
        }
        Err(Unanswerable::Refused(answer)) => vec![answer],
        Err(Unanswerable::Ignored) => return,
    };
    for answer in answers {
        assert!((12..=MOST_BYTES + 16).contains(&answer.len()));
        assert_eq!(answer[..2], input[..2]);
        assert_eq!(Question::read(&answer), Err(Unanswerable::Ignored));
    }
});
