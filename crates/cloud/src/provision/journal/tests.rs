//! Lines, damage, locks.

use proptest::prelude::*;

use super::*;

fn line(seq: u64) -> Line {
    let entry = match seq % 4 {
        0 => Entry::Intent { object: Kind::Lease, mark: 1, choice: 0, image: 1 },
        1 => Entry::Done {
            object: Kind::Server,
            id: "a\"},\"crc\":\"b".into(),
            detail: "ü\n".into(),
            until: Some(Time::EPOCH),
        },
        2 => Entry::Observed { state: SagaState::LeaseWait, destroy: false, failure: None },
        _ => Entry::Sweep { object: Kind::Address, mark: 3 },
    };
    Line { seq, ts: Time::from_millis(1_767_621_607_000), attempt: 1, entry }
}

fn text(count: u64) -> String {
    (1..=count).map(|seq| encode(&line(seq)).unwrap() + "\n").collect()
}

#[test]
fn a_line_is_one_json_object_with_its_checksum() {
    insta::assert_snapshot!(encode(&line(4)).unwrap(), @r#"{"seq":4,"ts":1767621607000,"attempt":1,"kind":"intent","data":{"object":"lease","mark":1,"choice":0,"image":1},"crc":"9312ecce"}"#);
    let all = text(8);
    let (lines, whole) = replay(all.as_bytes()).unwrap();
    assert_eq!((lines.len(), whole), (8, all.len()));
    assert_eq!(lines, (1..=8).map(line).collect::<Vec<_>>());
    assert_eq!(replay(b""), Ok((Vec::new(), 0)));
}

#[test]
fn a_torn_last_line_is_cut_off_wherever_it_was_torn() {
    let (all, before) = (text(5), text(4));
    for end in before.len()..all.len() {
        let (lines, whole) = replay(&all.as_bytes()[..end]).unwrap();
        assert_eq!((lines.len(), whole), (4, before.len()), "cut at {end}");
    }
}

#[test]
fn a_damaged_earlier_line_is_refused_with_what_to_do() {
    let all = text(5);
    let damaged = all.replacen("\"mark\":3", "\"mark\":4", 1);
    let error = replay(damaged.as_bytes()).unwrap_err();
    insta::assert_snapshot!(error, @"the journal is damaged at line 3: its checksum does not match; find what the deployment made with `list --remote`");
    assert_eq!(JournalError::from(error).exit().code(), 1);
    let missing: String =
        all.lines().filter(|line| !line.contains("\"seq\":2,")).map(|line| format!("{line}\n")).collect();
    assert_eq!(replay(missing.as_bytes()).unwrap_err().what, "its number is not the next one");
}

#[test]
fn a_checksum_in_capitals_is_not_the_one_written() {
    let all = text(6);
    let sums = || all.match_indices("\"crc\":\"").map(|(at, key)| at + key.len()..at + key.len() + 8);
    let mut changed = 0;
    for sum in sums() {
        let mut capitals = all.clone();
        capitals.replace_range(sum.clone(), &all[sum].to_ascii_uppercase());
        if capitals != all {
            changed += 1;
            assert_ne!(replay(capitals.as_bytes()).map(|(lines, _)| lines.len()), Ok(6));
        }
    }
    assert!(changed > 0, "no checksum with a letter");
}

proptest! {
    #[test]
    fn no_bytes_panic_and_no_single_change_is_believed(at in 0_usize..2000, to: u8, noise in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(replay(&noise));
        let good = text(6);
        let mut bytes = good.clone().into_bytes();
        let at = at % bytes.len();
        let same = bytes[at] == to;
        bytes[at] = to;
        if let Ok((lines, _)) = replay(&bytes) {
            let (wanted, _) = replay(good.as_bytes()).unwrap();
            prop_assert!(same || lines.len() < wanted.len());
            prop_assert_eq!(&lines[..], &wanted[..lines.len()]);
        }
    }
}

#[cfg(feature = "openstack")]
mod file {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn what_was_appended_is_there_again_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("state/k4x7q2mzwa");
        let journal = FileJournal::open(&place, "k4x7q2mzwa").unwrap();
        for seq in 1..=3 {
            let Line { ts, attempt, entry, .. } = line(seq);
            journal.append(ts, attempt, &entry).await.unwrap();
        }
        let path = journal.path().to_owned();
        drop(journal);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"seq\":4,\"ts\"").unwrap();
        let journal = FileJournal::open(&place, "k4x7q2mzwa").unwrap();
        assert_eq!(journal.lines().await.unwrap(), (1..=3).map(line).collect::<Vec<_>>());
        let Line { ts, attempt, entry, .. } = line(4);
        journal.append(ts, attempt, &entry).await.unwrap();
        drop(journal);
        assert_eq!(FileJournal::open(&place, "k4x7q2mzwa").unwrap().lines().await.unwrap().len(), 4);
    }

    #[tokio::test]
    async fn two_runs_of_one_deployment_are_refused_and_a_damaged_journal_too() {
        let folder = tempfile::tempdir().unwrap();
        let first = FileJournal::open(folder.path(), "k4x7q2mzwa").unwrap();
        let error = FileJournal::open(folder.path(), "k4x7q2mzwa").unwrap_err();
        assert_eq!(error.exit().code(), 5);
        insta::assert_snapshot!(error, @"deployment k4x7q2mzwa is locked by another process; wait for it, or stop it");
        let path = first.path().to_owned();
        drop(first);
        std::fs::write(&path, text(3).replacen("server", "lease", 1)).unwrap();
        assert_eq!(FileJournal::open(folder.path(), "k4x7q2mzwa").unwrap_err().exit().code(), 1);
    }
}
