// Package cost computes what a store in a bucket costs: the requests that remote.Store makes, the bytes that are stored and
// those that leave the bucket, and their price. It is arithmetic over what docs/REMOTE.md says of a writer (section 10) and of
// a reader (section 12), and over package compaction's estimate of how often data is rewritten. TestCost of package remote
// holds it against the requests of a real store.
package cost

import (
	"fmt"
	"math"
	"time"

	"github.com/shaledb/shale/compaction"
)

// A Use says how a store is used, and with which options. Rates are a second.
type Use struct {
	Bytes           float64 // of all tables
	Writes          float64 // puts of keys in random order
	Key, Value      float64 // bytes of each
	Compressed      float64 // bytes of data in a table for each byte of keys and values
	Absent, Present float64 // lookups of keys that the store lacks, and of keys that it has
	Hits            float64 // the part of reads of remote tables that a cache answers
	FalsePositives  float64 // of a lookup of an absent key, in all tables together
	Readers         float64

	// Options of remote and of shale. LocalBytes may be 0: all tables are local.
	LocalBytes                   float64
	Memtable, Table              float64
	Ship, Publish, Flush, Retain time.Duration
}

// A Kind is what an object store bills by.
type Kind int

// The kinds.
const (
	Put    Kind = iota // PUT and LIST
	Get                // GET and HEAD
	Stored             // bytes that are in the bucket
	Out                // bytes that leave it
)

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"PUT", "GET", "stored", "out"}[k] }

// A Row is one reason for requests or for bytes.
type Row struct {
	Name   string
	Kind   Kind
	Amount float64 // requests or bytes a second; of Stored bytes
	How    string  // the formula in words
}

// What package remote does: TestCost fails if these are not right any more.
const (
	segmentBytes  = 8 << 20 // the largest segment of the log
	pieceBytes    = 4 << 20 // a GET of a compaction or a scan
	pageBytes     = 64 << 10
	stateSteps    = 256  // steps after which a state is written; so it is each hour
	perList       = 1000 // objects
	hour          = 3600.0
	readerEvery   = 1.0          // seconds between two looks of a reader
	renewEvery    = 20 * 60.0    // seconds between two renewals of its pins
	tailPart      = 0.025        // filter, index and footer of a table
	pagesPart     = 1.0 / 16     // the cache of pages, of LocalBytes
	logOverhead   = 21           // bytes of a record of one put beyond its key and value
	memOverhead   = 53           // bytes of an entry in a memtable beyond them
	tableOverhead = 3            // bytes of an entry in a table beyond its compressed key and value: filter and index
	obsoleteExtra = time.Hour    // what nobody needs goes with the next collection
	month         = 30 * 86400.0 // seconds
)

// A model has what several rows need.
type model struct {
	Use
	entry      float64 // bytes of one in a table
	flushEvery float64 // seconds; +Inf: nothing is written
	levels     []level
	tables     float64 // in the bucket's newest state
	puts       float64 // tables that come into the bucket, a second
	putBytes   float64
	steps      float64 // a second
}

// A level is what compactions do to one, and how much of it the local disk lacks.
type level struct {
	compaction.LevelTraffic
	remote  float64 // part of its bytes
	travels float64 // part of its tables that live until a step names them
}

// Rows returns all reasons for requests and bytes.
func (u Use) Rows() []Row {
	m := u.model()
	rows := append(m.writing(), m.reading()...)
	return append(rows, m.bytes(rows)...)
}

// model computes what several rows need.
func (u Use) model() *model {
	m := &model{Use: u, entry: (u.Key+u.Value)*u.Compressed + tableOverhead, flushEvery: math.Inf(1)}
	if u.Writes > 0 {
		m.flushEvery = math.Min(u.Memtable/(u.Key+u.Value+memOverhead)/u.Writes, u.Flush.Seconds())
		m.steps = 1 / u.Publish.Seconds()
	}
	flushed := math.Min(m.flushEvery, hour*24) * u.Writes * m.entry
	room := u.LocalBytes*(1-pagesPart) - u.Memtable - tailPart*u.Bytes
	o := compaction.Options{MemtableSize: int64(u.Memtable), TableSize: int64(u.Table)}
	for _, t := range compaction.Traffic(int64(u.Bytes), max(int64(flushed), 1), o) {
		l := level{LevelTraffic: t}
		size := float64(t.Bytes)
		if u.LocalBytes > 0 && size > 0 {
			l.remote = 1 - math.Max(0, math.Min(size, room))/size
			room -= size
		}
		// By Little's law, what comes into a level stays there for as long as it takes to write all of it. Tables that go
		// after a random time, of that mean, have gone before the next step as often as this.
		written := u.Writes * m.entry * t.Written
		lives := u.Publish.Seconds() * written / math.Max(size, 1) // of a table, from one step to the next
		l.travels = -math.Expm1(-lives) / math.Max(lives, 1e-9)
		m.tables += size / float64(t.TableSize)
		m.puts += l.travels * written / float64(t.TableSize)
		m.putBytes += l.travels * written
		m.levels = append(m.levels, l)
	}
	return m
}

// kept is how many tables the bucket keeps for restores beyond those that the store needs.
func (m *model) kept() float64 { return m.puts * (m.Retain + obsoleteExtra).Seconds() }

// writing returns what a writer asks of the bucket without anybody reading.
func (m *model) writing() []Row {
	rows := []Row{}
	if m.Writes > 0 {
		log := m.Writes * (m.Key + m.Value + logOverhead)
		segments := math.Max(math.Min(m.Writes, 1/m.Ship.Seconds()), log/segmentBytes) + 1/m.flushEvery
		rows = append(rows,
			Row{"segments of the log", Put, segments, fmt.Sprintf("one each %v, or for each 8 MiB of %.3g MB/s, and one a memtable", m.Ship, log/1e6)},
			Row{"tables", Put, m.puts, fmt.Sprintf("one a table: each byte is written %.1f times, into tables of %s", m.written(), m.sizes())},
			Row{"tables", Get, m.puts, "one HEAD after each PUT"},
			Row{"steps", Put, 2 * m.steps, fmt.Sprintf("a PUT and a LIST each %v", m.Publish)},
			Row{"states", Put, m.steps/stateSteps + 1/hour, "one each 256 steps and each hour"},
			Row{"compactions", Get, m.compactionGets(), fmt.Sprintf("one for each 4 MiB of remote tables that they read: %.3g MB/s", m.compactionBytes()/1e6)})
	}
	lists := 2*math.Ceil((m.tables+m.kept())/perList) + 8
	if len(rows) > 0 {
		lists += rows[0].Amount * hour / perList
	}
	return append(rows, Row{"collection", Put, lists / hour, fmt.Sprintf("LISTs of %.0f tables, twice, and of an hour's segments, each hour; DELETEs cost nothing", m.tables+m.kept())})
}

// written is how often a byte is written to tables.
func (m *model) written() (n float64) {
	for _, l := range m.levels {
		n += l.Written
	}
	return n
}

// sizes names the sizes of tables of the first level and of the last.
func (m *model) sizes() string {
	first, last := m.levels[0].TableSize, m.levels[len(m.levels)-1].TableSize
	return fmt.Sprintf("%.3g to %.3g MB", float64(min(first, last))/1e6, float64(max(first, last))/1e6)
}

// compactionBytes is how many bytes of remote tables compactions read, a second.
func (m *model) compactionBytes() (n float64) {
	for _, l := range m.levels {
		n += m.Writes * m.entry * l.Read * l.remote
	}
	return n
}

// compactionGets is how many GETs that takes, a second.
func (m *model) compactionGets() (n float64) {
	for _, l := range m.levels {
		size := float64(l.TableSize)
		gets := math.Ceil(size * (1 - tailPart) / pieceBytes)
		n += m.Writes * m.entry * l.Read * l.remote / size * gets
	}
	return n
}

// remote is the part of all bytes that the local disk lacks.
func (m *model) remote() float64 {
	lacking, all := 0.0, 0.0
	for _, l := range m.levels {
		lacking += l.remote * float64(l.Bytes)
		all += float64(l.Bytes)
	}
	return lacking / math.Max(all, 1)
}

// reading returns what lookups and readers ask of the bucket.
func (m *model) reading() (rows []Row) {
	remote := m.remote()
	if n := m.Absent * m.FalsePositives * remote * (1 - m.Hits); n > 0 {
		rows = append(rows, Row{"absent keys", Get, n, fmt.Sprintf("false positives: %.3g of a lookup, %.0f %% of the bytes are remote, %.0f %% are cached", m.FalsePositives, 100*remote, 100*m.Hits)})
	}
	if n := m.Present * remote * (1 - m.Hits); n > 0 {
		rows = append(rows, Row{"present keys", Get, n, fmt.Sprintf("one each: %.0f %% of the bytes are remote, %.0f %% are cached", 100*remote, 100*m.Hits)})
	}
	if m.Readers > 0 {
		rows = append(rows,
			Row{"readers", Get, m.Readers * (2/readerEvery + m.puts + 2/renewEvery), "two a second, the tail of each new table, and pins"},
			Row{"readers", Put, m.Readers * (m.steps + 2/renewEvery), "a LIST a step, and pins"})
	}
	return rows
}

// bytes returns what is stored, and what leaves the bucket.
func (m *model) bytes(rows []Row) []Row {
	log := m.Writes * (m.Key + m.Value + logOverhead)
	retain := (m.Retain + obsoleteExtra).Seconds()
	out := m.compactionBytes() + m.Readers*m.putBytes*tailPart
	for _, r := range rows {
		if r.Name == "absent keys" || r.Name == "present keys" {
			out += r.Amount * pageBytes
		}
	}
	return []Row{
		{"tables of the store", Stored, m.Bytes, "as given"},
		{"kept for restores", Stored, (m.putBytes + log) * retain, fmt.Sprintf("tables and logs of %v and an hour", m.Retain)},
		{"what is read", Out, out, "compactions, 64 KiB a lookup, tails for readers"},
	}
}

// Prices are what an object store bills.
type Prices struct {
	Put, Get    float64 // 1,000 requests
	Stored, Out float64 // a gigabyte, of 1e9 bytes: for a month, and leaving the bucket's region
}

// Month returns how many requests or gigabytes a row is in 30 days, and their price.
func (p Prices) Month(r Row) (amount, price float64) {
	switch r.Kind {
	case Put:
		return r.Amount * month, r.Amount * month / 1000 * p.Put
	case Get:
		return r.Amount * month, r.Amount * month / 1000 * p.Get
	case Out:
		return r.Amount * month / 1e9, r.Amount * month / 1e9 * p.Out
	}
	return r.Amount / 1e9, r.Amount / 1e9 * p.Stored
}

// Requests returns the price of requests that were counted.
func (p Prices) Requests(puts, gets int64) float64 {
	return float64(puts)/1000*p.Put + float64(gets)/1000*p.Get
}
