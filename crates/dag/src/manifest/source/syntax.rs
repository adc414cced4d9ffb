//! What the parser's errors mean to the person who wrote the text. Owns the wording; never parses.

use granit_parser::ErrorKind;

use crate::manifest::violation::Note;

/// A message and what to do for an error of the parser.
pub(super) fn explained(kind: &ErrorKind, depth: usize) -> Note {
    let help = match kind {
        ErrorKind::RecursionLimitExceeded => {
            let message = format!("lists and mappings are nested deeper than {depth} levels");
            return Note::new(message, Some("flatten the document; no field of a flow needs that".to_owned()));
        }
        ErrorKind::UnknownAnchor => {
            return Note::new(
                "the alias names an anchor that is not defined before it",
                Some("define it with `&name` above, or quote the text if the `*` is part of it".to_owned()),
            );
        }
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => "indent with spaces; YAML refuses tabs there",
        ErrorKind::MappingValueNotAllowed | ErrorKind::MappingKeyNotAllowed | ErrorKind::InvalidColonPlacement => {
            "check the indentation of this line; a text that holds `: ` must be quoted"
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::SimpleKeyExpected
        | ErrorKind::InvalidSimpleKey => "check the indentation of this line and the `:` after its key",
        ErrorKind::UnclosedQuotedScalar => "close the quote that begins here",
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping => "close the bracket; the file may be cut off",
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            "put a comma between entries, and quote texts that hold brackets or commas"
        }
        ErrorKind::UnexpectedCharacter { .. } => "quote the text; `@`, `` ` `` and control characters cannot begin one",
        ErrorKind::UnknownQuotedScalarEscape => "write `\\\\` for a backslash, or use single quotes",
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            "quote the whole value, or put a quote inside it in quotes of the other kind"
        }
        _ => return Note::new(format!("the text is neither YAML nor JSON: {kind}"), None),
    };
    Note::new(format!("the text is neither YAML nor JSON: {kind}"), Some(help.to_owned()))
}
