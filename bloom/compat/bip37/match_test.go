package bip37

import (
	"bytes"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// withElements returns a filter as in Bitcoin Core's bloom_match.
func withElements(t testing.TB, flags Flags, elements ...[]byte) *Filter {
	t.Helper()
	f := mustNew(t, 10, 0.000001, 0, flags)
	for _, e := range elements {
		f.Add(e)
	}
	return f
}

func outPoint(t testing.TB, id string, index uint32) []byte {
	t.Helper()
	b := (&OutPoint{TxID: mustID(t, id), Index: index}).serialized()
	return b[:]
}

// The cases of Bitcoin Core's bloom_match.
func TestMatchAndUpdate_OfBitcoinCore(t *testing.T) {
	id := mustID(t, paidID)
	other := mustID(t, "00000009e784f32f62ef849763d4f45b98e07ba658647343b915ff832b110436")
	const spentID = "90c122d70786e899529d71dbeba91ba216982fb6ba58f3bdaab65e73b7e9260b"
	for what, c := range map[string]struct {
		element []byte
		want    bool
	}{
		"the id":                    {id[:], true},
		"the id, by hand":           {unhex("6bff7fcd4f8565ef406dd5d63d4ff94f318fe82027fd4dc451b04474019f74b4"), true},
		"the signature":             {unhex("30450220070aca44506c5cef3a16ed519d7c3c39f8aab192c4e1c90d065f37b8a4af6141022100a8e160b856c2d43d27d8fba71e5aef6405b8643ac4cb7cb3c462aced7f14711a01"), true},
		"the public key":            {unhex("046d11fee51b0e60666d5049a9101a72741df480b96ee26488a4d3466b95c9a40ac5eeef87e10a5cd336c19a84565f80fa6c547957b7700ff4dfbdefe76036c339"), true},
		"the first address":         {unhex("04943fdd508053c75000106d3bc6e2754dbcff19"), true},
		"the second address":        {unhex("a266436d2965547608b9e15d9032a7b9d64fa431"), true},
		"the outpoint":              {outPoint(t, spentID, 0), true},
		"another id":                {other[:], false},
		"another address":           {unhex("0000006d2965547608b9e15d9032a7b9d64fa431"), false},
		"another outpoint":          {outPoint(t, spentID, 1), false},
		"an outpoint of another id": {outPoint(t, "000000d70786e899529d71dbeba91ba216982fb6ba58f3bdaab65e73b7e9260b", 0), false},
	} {
		if got := withElements(t, UpdateAll, c.element).MatchAndUpdate(mustParse(t, unhex(paid))); got != c.want {
			t.Errorf("a filter with %s: %v, want %v", what, got, c.want)
		}
	}
}

// What spends an output that has matched matches too, if the flags say so.
func TestMatchAndUpdate_AddsOutPoints(t *testing.T) {
	first, second := mustParse(t, unhex(paid)), mustParse(t, unhex(spends))
	for flags, want := range map[Flags]bool{UpdateNone: false, UpdateAll: true, UpdateP2PubKeyOnly: false, 3: false, 0x80: false, 0x81: true} {
		f := withElements(t, flags, unhex("04943fdd508053c75000106d3bc6e2754dbcff19"))
		if f.MatchAndUpdate(second) || !f.MatchAndUpdate(first) || f.MatchAndUpdate(second) != want {
			t.Errorf("flags %x: the second transaction matches before the first, the first does not, or the second then not as %v", flags, want)
		}
		if f.MayContain(outPoint(t, paidID, 0)) != want || f.MayContain(outPoint(t, paidID, 1)) {
			t.Errorf("flags %x: outpoints are added that must not be, or not those that must", flags)
		}
	}
	// An id that matches does not keep outputs from being looked at.
	f := withElements(t, UpdateAll, first.TxID[:], unhex("a266436d2965547608b9e15d9032a7b9d64fa431"))
	if !f.MatchAndUpdate(first) || !f.MayContain(outPoint(t, paidID, 1)) || f.MayContain(outPoint(t, paidID, 0)) {
		t.Error("outputs of a transaction whose id matches are not added")
	}
}

// Bitcoin Core's merkle_block_4_test_p2pubkey_only and _update_none.
func TestMatchAndUpdate_P2PubKeyOnly(t *testing.T) {
	key := unhex("04eaafc2314def4ca98ac970241bcab022b9c1e1f4ea423a20f134c876f2c01ec0f0dd5b2e86e7168cefe0d81113c3807420ce13ad1357231a2252247d97a46a91")
	for flags, want := range map[Flags][2]bool{UpdateP2PubKeyOnly: {true, false}, UpdateNone: {}, UpdateAll: {true, true}} {
		f := withElements(t, flags, key, unhex("b6efd80d99179f4f4ff6f4dd0a007d018c385d21"))
		for _, tx := range []string{generated, address} {
			if !f.MatchAndUpdate(mustParse(t, unhex(tx))) {
				t.Errorf("flags %d: a transaction does not match", flags)
			}
		}
		if got := [2]bool{f.MayContain(outPoint(t, generatedID, 0)), f.MayContain(outPoint(t, addressID, 0))}; got != want {
			t.Errorf("flags %d: outpoints are there: %v, want %v", flags, got, want)
		}
	}
}

// A transaction whose witness has the element does not match.
func TestMatchAndUpdate_NotWitnesses(t *testing.T) {
	tx := mustParse(t, unhex(witness))
	if withElements(t, UpdateAll, unhex(witnessKey)).MatchAndUpdate(tx) {
		t.Error("a public key of a witness matches")
	}
	if !withElements(t, UpdateAll, unhex("0f3444e271620c736808aa7b33e370bd87cb5a07")).MatchAndUpdate(tx) || !withElements(t, UpdateAll, tx.TxID[:]).MatchAndUpdate(tx) {
		t.Error("a hash of a script or the id does not match")
	}
}

func TestMatchAndUpdate_EmptyFilters(t *testing.T) {
	tx := mustParse(t, unhex(paid))
	var zero Filter
	if !zero.MatchAndUpdate(tx) {
		t.Error("the zero filter does not match")
	}
	if withElements(t, UpdateAll).MatchAndUpdate(tx) {
		t.Error("a filter of nothing matches")
	}
}

// All ways to push an element, by hand.
func TestMatchAndUpdate_Pushes(t *testing.T) {
	e := []byte("element")
	long := bytes.Repeat([]byte("long"), 64)
	for what, c := range map[string]struct {
		script, element []byte
		want            bool
	}{
		"a direct push":                   {append([]byte{7}, e...), e, true},
		"OP_PUSHDATA1":                    {append([]byte{0x4c, 7}, e...), e, true},
		"OP_PUSHDATA2":                    {append([]byte{0x4d, 7, 0}, e...), e, true},
		"OP_PUSHDATA2 of 256 bytes":       {append([]byte{0x4d, 0, 1}, long...), long, true},
		"OP_PUSHDATA4":                    {append([]byte{0x4e, 7, 0, 0, 0}, e...), e, true},
		"behind other opcodes":            {append([]byte{0, 0x51, 0x76, 0xa9, 2, 1, 2, 7}, e...), e, true},
		"a push that is too long":         {append([]byte{8}, e...), e, false},
		"an endless push":                 {append([]byte{0x4e, 0xff, 0xff, 0xff, 0xff}, e...), e, false},
		"OP_PUSHDATA2 without its length": {[]byte{0x4d, 1}, []byte{}, false},
		"behind a push that is too long":  {append(append([]byte{0x4c, 0xff}, 7), e...), e, false},
		"before one":                      {append(append([]byte{7}, e...), 0x4b, 1), e, true},
		"an empty element":                {[]byte{0, 0x4c, 0}, []byte{}, false},
		"a small number":                  {[]byte{0x51}, []byte{1}, false},
		"a part of a push":                {append([]byte{8}, "element!"...), e, false},
	} {
		f := withElements(t, UpdateNone, c.element)
		if got := f.MatchAndUpdate(&Transaction{Outputs: []Output{{Script: c.script}}}); got != c.want {
			t.Errorf("%s in an output: %v, want %v", what, got, c.want)
		}
		if got := f.MatchAndUpdate(&Transaction{Inputs: []Input{{Script: c.script}}}); got != c.want {
			t.Errorf("%s in an input: %v, want %v", what, got, c.want)
		}
	}
}

// Scripts that pay to a key or to several, and almost.
func TestPaysTo(t *testing.T) {
	short, long := "02"+strings.Repeat("11", 32), "04"+strings.Repeat("22", 64)
	pushShort, pushLong := "21"+short, "41"+long
	for script, want := range map[string]bool{
		pushShort + "ac":                             true,
		pushLong + "ac":                              true,
		"2103" + strings.Repeat("11", 32) + "ac":     true,
		"4106" + strings.Repeat("11", 64) + "ac":     true,
		"4c" + pushShort + "ac":                      false, // not the shortest push
		"2104" + strings.Repeat("11", 32) + "ac":     false, // no key of this length
		"4102" + strings.Repeat("11", 64) + "ac":     false,
		pushShort:                                    false,
		pushShort + "ae":                             false,
		pushShort + "acac":                           false,
		"76a914" + strings.Repeat("11", 20) + "88ac": false, // to an address
		"":                                                    false,
		"ac":                                                  false,
		"51" + pushShort + "51ae":                             true, // 1 of 1
		"51" + pushShort + pushLong + "52ae":                  true, // 1 of 2
		"52" + pushShort + pushLong + "52ae":                  true, // 2 of 2
		"53" + pushShort + pushLong + "52ae":                  false,
		"51" + pushShort + pushLong + "53ae":                  false,
		"51" + pushShort + pushLong + "51ae":                  false,
		"00" + pushShort + "51ae":                             false,
		"51" + "51ae":                                         false,
		"51" + "00ae":                                         false,
		"51" + pushShort + "51ac":                             false,
		"51" + pushShort + "51aeae":                           false,
		"51" + pushShort + "51ae05ae":                         false,
		"51" + pushShort + "51":                               false,
		"51" + pushShort + "0101ae":                           false, // 1 has a shorter form
		"51" + "4c" + pushShort + "51ae":                      true,  // keys may be pushed in any way
		"51" + strings.Repeat(pushShort, 16) + "60ae":         true,
		"51" + strings.Repeat(pushShort, 17) + "0111ae":       true,
		"0111" + strings.Repeat(pushShort, 20) + "0114ae":     true,
		"51" + strings.Repeat(pushShort, 21) + "0115ae":       false,
		"51" + strings.Repeat(pushShort, 17) + "4c0111ae":     false, // not the shortest push
		"51" + strings.Repeat(pushShort, 17) + "021100ae":     false,
		"51" + strings.Repeat(pushShort, 2) + "52" + "ae4cae": false,
	} {
		b := unhex(script)
		if got := paysToPubKey(b) || paysToMultisig(b); got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
		f := withElements(t, UpdateP2PubKeyOnly, unhex(short), unhex(long), unhex("03"+short[2:]), unhex("06"+strings.Repeat("11", 64)))
		tx := &Transaction{TxID: [32]byte{9}, Outputs: []Output{{}, {Script: b}}}
		if f.MatchAndUpdate(tx); want && !f.MayContainOutPoint(OutPoint{TxID: tx.TxID, Index: 1}) {
			t.Errorf("%s: its outpoint is not added", script)
		}
	}
}

func TestMatchAndUpdate_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	tx := mustParse(t, unhex(address))
	f := withElements(t, UpdateP2PubKeyOnly, unhex("b6efd80d99179f4f4ff6f4dd0a007d018c385d21"))
	if n := testing.AllocsPerRun(100, func() { f.MatchAndUpdate(tx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
