package object

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/remote/internal/bucket"
)

func TestName_RoundTrip(t *testing.T) {
	pin, err := PinName("before-upgrade")
	mustNil(t, err)
	for _, c := range []struct {
		name string
		want string
		says Name
	}{
		{IdentityName, "id", Name{Kind: KindIdentity}},
		{TableName(0x12345), "t/45/0000000000012345.sst", Name{Kind: KindTable, Num: 0x12345}},
		{FilterName(0x123), "t/23/0000000000000123.flt", Name{Kind: KindFilter, Num: 0x123}},
		{SegmentName(12, 0x1000), "w/000000000000000c/0000000000001000", Name{Kind: KindSegment, Num: 12, Offset: 0x1000}},
		{StepName(7), "m/0000000000000007", Name{Kind: KindStep, Num: 7}},
		{StateName(256), "s/0000000000000100", Name{Kind: KindState, Num: 256}},
		{pin, "p/before-upgrade", Name{Kind: KindPin, Pin: "before-upgrade"}},
		{ProbeName(math.MaxUint64), "probe/ffffffffffffffff", Name{Kind: KindProbe, Num: math.MaxUint64}},
	} {
		got, ok := ParseName(c.name)
		if c.name != c.want || !ok || got != c.says || got.String() != c.want {
			t.Errorf("%s: parsed %+v, %v; want %s, %+v", c.name, got, ok, c.want, c.says)
		}
		if err := bucket.CheckName(c.name); err != nil {
			t.Error(err)
		}
	}
}

func TestName_RefusesAllElse(t *testing.T) {
	for _, name := range []string{
		"", "/", "id/", "ID", "ids", "t", "t/", "t/45", "m/", "m", "p/", "p/a/b", "p/A", "p/.", "x/0000000000000007",
		"t/46/0000000000012345.sst", "t/45/0000000000012345.sst.sst", "t/45/0000000000012345", "t/45/0000000000012345.wal", "t/45/12345.sst",
		"t/0000000000012345.sst", "t/45/0000000000012345.", "t/45/x/0000000000012345.sst",
		"m/7", "m/000000000000000G", "m/000000000000000A", "m/00000000000000007", "m/+000000000000007", "m/-000000000000007", "m/0x00000000000007",
		"s/0000000000000007/", "s/0000000000000007 ",
		"w/000000000000000c", "w/000000000000000c/", "w/000000000000000c/1000", "w/c/0000000000001000", "w/000000000000000c/ffffffffffffffff",
		"w/000000000000000c/0000000000001000/0000000000001000", "w/000000000000000c/-000000000001000", "probe/1",
	} {
		if n, ok := ParseName(name); ok || n != (Name{}) {
			t.Errorf("ParseName(%q) = %+v, %v; want nothing", name, n, ok)
		}
	}
	for _, pin := range []string{"", "a/b", ".a", "a.", "A", "a b", "é", strings.Repeat("a", 201)} {
		if name, err := PinName(pin); err == nil || !strings.Contains(err.Error(), "choose") {
			t.Errorf("PinName(%q) = %q, %v", pin, name, err)
		}
	}
	if got := (Name{}).String(); got != "" {
		t.Errorf("the zero Name is %q", got)
	}
}

// TestName_Order checks that objects that follow each other are listed in their order.
func TestName_Order(t *testing.T) {
	numbers := []uint64{0, 1, 9, 10, 255, 256, 1 << 36, 1 << 60, math.MaxInt64}
	for what, name := range map[string]func(n uint64) string{
		"steps": StepName, "states": StateName, "logs": func(n uint64) string { return SegmentName(n, 5) },
		"segments": func(n uint64) string { return SegmentName(5, int64(n)) },
	} {
		var names []string
		for _, n := range numbers {
			names = append(names, name(n))
		}
		if !slices.IsSorted(names) {
			t.Errorf("%s are not in order: %q", what, names)
		}
	}
	if folder := TableName(255)[:4]; folder != "t/ff" {
		t.Errorf("table 255 is in %s", folder)
	}
}

func TestCheckName(t *testing.T) {
	long := strings.Repeat("a", bucket.MaxNamePart)
	for _, name := range []string{"a", "id", "a/b", "a..b", "-", "_a", "0", long, strings.Repeat("a/", 255) + "bc"} {
		if err := bucket.CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", ".a", "a.", "a/.b", "A", "é", "a b", "a\x00", "a\\b", "a:b", "a\n", "a,b",
		long + "a", strings.Repeat("a/", 256) + "b",
	} {
		if err := bucket.CheckName(name); err == nil {
			t.Errorf("CheckName(%q) accepts it", name)
		}
	}
}
