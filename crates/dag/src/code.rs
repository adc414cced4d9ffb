//! Codes of findings about manifests: one word for programs and for the book each, with what it is about. What exactly is wrong, and
//! what to do, is in the message and the help of each finding.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($name:ident = $word:literal, $about:literal;)+) => {
        /// What kind of fault a finding about a manifest is.
        ///
        /// ```
        /// use orlop_dag::manifest::Code;
        /// assert_eq!(Code::UnknownField.to_string(), "unknown-field");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $about] $name,)+
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as it is written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What findings with this code are about, in one sentence.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => $about,)+ }
            }
        }
    };
}

codes! {
    Syntax = "syntax", "The text is neither YAML nor JSON, or a key stands twice in one mapping.";
    Limit = "limit", "The document is larger, deeper or has more aliases than is read.";
    Object = "object", "`apiVersion`, `kind` or `metadata` are missing or wrong, or the document is of another kind.";
    Value = "value", "A field has a value or type that it cannot have, is missing, or excludes another that is there.";
    UnknownField = "unknown-field", "There is no field of this name at this place.";
    TooLarge = "too-large", "The flow is larger than can be stored.";
    Name = "name", "Two steps have the same name, also after it is shortened, or a step has the name of an instance of a fan-out.";
    Duplicate = "duplicate", "Two items of a list have the same name.";
    Reserved = "reserved", "A label or annotation has a key that only the controller writes.";
    Dependency = "dependency", "`dependencies` names no step, or one that is not run before this one.";
    Cycle = "cycle", "Steps wait for each other.";
    Depends = "depends", "The expression in `depends` cannot be read.";
    Condition = "condition", "The expression in `when` cannot be read, or compares values that cannot be compared.";
    Reference = "reference", "An input, an expression or a list of items names a step or an output that is not there or not known then.";
    Parameter = "parameter", "The name of a parameter is not valid.";
    Source = "source", "A parameter has no source for its value, several of them, or one that is not allowed here.";
    Path = "path", "A JSONPath cannot be read, names no step, or leads into text.";
    Placeholder = "placeholder", "A placeholder names a parameter that is not there, or one that may not stand here.";
    Artifact = "artifact", "An artifact has no source, two of them, or one that is not there.";
    UnsafePath = "unsafe-path", "A path is not absolute, or leads out of where it may be.";
    Template = "template", "The template of a step is not a Job.";
    Job = "job", "A field of the Job has a value that no attempt of a step can have.";
    Container = "container", "The pod has no container, or a container has no name, no image, the name of another or a variable without a valid name.";
    Amount = "amount", "An amount of a resource cannot be read, is not above 0, or a limit is below its request.";
    Shell = "shell", "A placeholder, or `$$`, stands in the text of a shell, where it means another thing than it seems to.";
    Command = "command", "A step whose files are moved by the helper does not say its command.";
    Unsupported = "unsupported", "The place where the flow is to run cannot do what the field asks for.";
    Ignored = "ignored", "The place where the flow is to run does not look at the field.";
    Pipeline = "pipeline", "A pipeline, the short form of a flow, is not well formed.";
    Approval = "approval", "A decision about a Manual step is no decision, is changed or taken back, or is in the name of somebody else.";
    Confirmation = "confirmation", "An attempt is said to be gone that is not CancelBlocked.";
    Immutable = "immutable", "A field is changed that cannot be changed after the flow was made.";
    Hardware = "hardware", "A hardware requirement cannot be read.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
