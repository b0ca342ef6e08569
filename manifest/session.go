package manifest

import (
	"errors"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
)

// A Session is one life of a writer: from an Open for writing to its end. Its id is a random
// number, and all that it writes follows from the state that it has found. A checkpoint has a session
// of its own, too, in which nothing is written: the session that has made it goes on elsewhere.
//
// A state has the sessions that have led to it, newest last. If a store is restored from a copy
// and written again, another session follows the one of the copy. So two states of which neither
// comes after the other, although they have the same store id and the same numbers, are told
// apart by their sessions: see State.Extends.
type Session struct {
	ID   uint64       // not 0
	From base.Seq     // the last sequence number of the state that the session has found
	Log  base.FileNum // its logs and tables have this number or a higher one, those of earlier sessions lower ones
}

// MaxSessions is how many sessions a state has at most: the newest ones. They take about 15
// bytes each in a manifest.
const MaxSessions = 128

// BeginSession makes a session the newest one of s. All its numbers are above s.LastSeq, and its
// logs have the number log or a higher one.
func (s *State) BeginSession(id uint64, log base.FileNum) {
	keep := s.Sessions[max(0, len(s.Sessions)-MaxSessions+1):]
	s.Sessions = append(keep[:len(keep):len(keep)], Session{ID: id, From: s.LastSeq, Log: log})
}

// Session returns the id of the newest session, or 0 if no session is known.
func (s *State) Session() uint64 {
	if len(s.Sessions) == 0 {
		return 0
	}
	return s.Sessions[len(s.Sessions)-1].ID
}

// SessionOf returns the id of the session that has written a log or a table, or 0 if it is not known.
func (s *State) SessionOf(num base.FileNum) (id uint64) {
	for _, session := range s.Sessions {
		if session.Log <= num {
			id = session.ID
		}
	}
	return id
}

// Extends reports whether s comes after was in the history of the store, as far as sessions tell:
// within one session, the order is not known. seen is the highest sequence number that has been
// seen of the history of was. That may be more than was says itself.
//
// The session of was must have led to s, and the session after it must have found all that has
// been seen. So the numbers that were given out after that are higher ones. Otherwise the
// directory was restored to an earlier state, or to that of another copy, or a power cut has
// taken what was seen. If too many sessions have come since, the answer is no, too.
func (s *State) Extends(was *State, seen base.Seq) bool {
	next := 0 // if an earlier program wrote was, the first session that is known has come later
	if id := was.Session(); id != 0 {
		for next < len(s.Sessions) && s.Sessions[next].ID != id {
			next++
		}
		if next == len(s.Sessions) {
			return false
		}
		next++
	}
	return next == len(s.Sessions) || seen <= s.Sessions[next].From
}

// appendSession appends the content of a field for a session: id u64 · from · log.
func appendSession(dst []byte, s Session) []byte {
	dst = appendUint64(dst, s.ID)
	return fields.AppendUvarints(dst, uint64(s.From), uint64(s.Log))
}

// session decodes what appendSession has encoded.
func (d decoder) session() Session {
	s := Session{ID: d.Uint64(), From: d.seq(), Log: base.FileNum(d.Uvarint())}
	if s.ID == 0 {
		d.Fail(errors.New("a session has the id 0"))
	}
	return s
}
