//! How containers that formats cannot write as they are get written: maps by keys that are no text as lists of pairs, long
//! arrays as lists. Owns these two forms.

/// Maps as lists of pairs.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Arrays of 64 as lists.
pub(crate) mod row {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(row: &[T; 64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(row)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<[T; 64], D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let list = Vec::<T>::deserialize(deserializer)?;
        let wrong = |list: Vec<T>| serde::de::Error::invalid_length(list.len(), &"64 numbers");
        list.try_into().map_err(wrong)
    }
}
