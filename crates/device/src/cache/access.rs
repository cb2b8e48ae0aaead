//! Decision whether a folder or file of the cache can be trusted, from its owner and mode.
//!
//! The program executes the kernels of the cache. A folder or file of another user is refused.
//! Write permission of others is taken away, because with umask 002 new files have it.

/// Permission to write for the group and for others.
const WRITE_OF_OTHERS: u32 = 0o022;

/// Mode bit of folders in which users can rename and remove only their own files, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Permission bits that `chmod` changes.
const PERMISSIONS: u32 = 0o7777;

/// User id of the administrator.
const ROOT: u32 = 0;

/// Treatment of a folder or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessVerdict {
    /// Only this user can change it.
    Trusted,
    /// It belongs to this user, and can be trusted with this mode.
    Restrict(u32),
    /// It cannot be trusted, for this reason.
    Refused(String),
}

/// Decides about a folder or file of `owner` with `mode`, for a process of `user`.
pub(crate) fn judge(owner: u32, mode: u32, user: u32) -> AccessVerdict {
    if owner != user {
        return AccessVerdict::Refused(format!("it belongs to user {owner}, expected user {user}"));
    }
    match mode & WRITE_OF_OTHERS {
        0 => AccessVerdict::Trusted,
        _ => AccessVerdict::Restrict(mode & PERMISSIONS & !WRITE_OF_OTHERS),
    }
}

/// Decides about the folder that contains the folders of the cache. It may be a folder of the
/// administrator, such as `/scratch`. All that is read from it is checked as well.
pub(crate) fn judge_base(owner: u32, mode: u32, user: u32) -> AccessVerdict {
    let is_of_administrator = owner == ROOT && user != ROOT;
    let is_sticky = owner == user && mode & STICKY != 0;
    if is_of_administrator || is_sticky { AccessVerdict::Trusted } else { judge(owner, mode, user) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u32 = 1000;
    const OTHER: u32 = 1001;

    fn is_refused(access: &AccessVerdict) -> bool {
        matches!(access, AccessVerdict::Refused(_))
    }

    #[test]
    fn only_the_user_is_trusted() {
        assert_eq!(judge(USER, 0o100_600, USER), AccessVerdict::Trusted);
        assert_eq!(judge(USER, 0o40_755, USER), AccessVerdict::Trusted);
        for (owner, user) in [(OTHER, USER), (ROOT, USER), (USER, ROOT)] {
            let expected = format!("it belongs to user {owner}, expected user {user}");
            assert_eq!(judge(owner, 0o100_600, user), AccessVerdict::Refused(expected));
        }
    }

    #[test]
    fn write_permission_of_others_is_taken_away() {
        for (mode, expected) in [
            (0o40_775, 0o755),
            (0o40_777, 0o755),
            (0o42_770, 0o2750),
            (0o41_777, 0o1755),
            (0o100_664, 0o644),
            (0o100_602, 0o600),
        ] {
            assert_eq!(judge(USER, mode, USER), AccessVerdict::Restrict(expected), "{mode:o}");
            assert!(is_refused(&judge(OTHER, mode, USER)), "{mode:o}");
        }
    }

    #[test]
    fn the_base_may_be_a_shared_folder_of_the_administrator() {
        assert_eq!(judge_base(USER, 0o40_700, USER), AccessVerdict::Trusted);
        assert_eq!(judge_base(USER, 0o40_775, USER), AccessVerdict::Restrict(0o755));
        for mode in [0o41_777, 0o40_755, 0o40_775] {
            assert_eq!(judge_base(ROOT, mode, USER), AccessVerdict::Trusted, "{mode:o}");
        }
        // The mode of `/tmp` is kept, also by the administrator.
        assert_eq!(judge_base(ROOT, 0o41_777, ROOT), AccessVerdict::Trusted);
        assert_eq!(judge_base(ROOT, 0o40_777, ROOT), AccessVerdict::Restrict(0o755));
        // For example `sudo orrery` with the HOME of a user.
        assert!(is_refused(&judge_base(USER, 0o40_700, ROOT)));
        assert!(is_refused(&judge_base(OTHER, 0o41_777, USER)));
    }
}
