package bip37

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// Transactions of the main chain in Bitcoin Core's bloom_tests: paid pays to two addresses,
// and spends spends its first output. Generated and address are the first and the fourth
// transaction of block 000000000000b731f2eef9e8c63173adfb07e41bd53eb0ef0a6b720d6cb6dea4.
const (
	paidID = "b4749f017444b051c44dfd2720e88f314ff94f3dd6d56d40ef65854fcd7fff6b"
	paid   = "01000000010b26e9b7735eb6aabdf358bab62f9816a21ba9ebdb719d5299e88607d722c190000000008b4830450220070aca44506c5cef3a16ed519d7c3c39f8aab192c4e1c90d065f37b8a4af6141022100a8e160b856c2d43d27d8fba71e5aef6405b8643ac4cb7cb3c462aced7f14711a0141046d11fee51b0e60666d5049a9101a72741df480b96ee26488a4d3466b95c9a40ac5eeef87e10a5cd336c19a84565f80fa6c547957b7700ff4dfbdefe76036c339ffffffff021bff3d11000000001976a91404943fdd508053c75000106d3bc6e2754dbcff1988ac2f15de00000000001976a914a266436d2965547608b9e15d9032a7b9d64fa43188ac00000000"

	spendsID = "e2769b09e784f32f62ef849763d4f45b98e07ba658647343b915ff832b110436"
	spends   = "01000000016bff7fcd4f8565ef406dd5d63d4ff94f318fe82027fd4dc451b04474019f74b4000000008c493046022100da0dc6aecefe1e06efdf05773757deb168820930e3b0d03f46f5fcf150bf990c022100d25b5c87040076e4f253f8262e763e2dd51e7ff0be157727c4bc42807f17bd39014104e6c26ef67dc610d2cd192484789a6cf9aea9930b944b7e2db5342b9d9e5b9ff79aff9a2ee1978dd7fd01dfc522ee02283d3b06a9d03acf8096968d7dbb0f9178ffffffff028ba7940e000000001976a914badeecfdef0507247fc8f74241d73bc039972d7b88ac4094a802000000001976a914c10932483fec93ed51f5fe95e72559f2cc7043f988ac00000000"

	generatedID = "147caa76786596590baa4e98f5d9f48b86c7765e489f7a6ff3360fe5c674360b"
	generated   = "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff07044c86041b0136ffffffff0100f2052a01000000434104eaafc2314def4ca98ac970241bcab022b9c1e1f4ea423a20f134c876f2c01ec0f0dd5b2e86e7168cefe0d81113c3807420ce13ad1357231a2252247d97a46a91ac00000000"

	addressID = "02981fa052f0481dbc5868f4fc2166035a10f27a03cfd2de67326471df5bc041"
	address   = "01000000045bf0e214aa4069a3e792ecee1e1bf0c1d397cde8dd08138f4b72a00681743447000000008b48304502200c45de8c4f3e2c1821f2fc878cba97b1e6f8807d94930713aa1c86a67b9bf1e40221008581abfef2e30f957815fc89978423746b2086375ca8ecf359c85c2a5b7c88ad01410462bb73f76ca0994fcb8b4271e6fb7561f5c0f9ca0cf6485261c4a0dc894f4ab844c6cdfb97cd0b60ffb5018ffd6238f4d87270efb1d3ae37079b794a92d7ec95ffffffffd669f7d7958d40fc59d2253d88e0f248e29b599c80bbcec344a83dda5f9aa72c000000008a473044022078124c8beeaa825f9e0b30bff96e564dd859432f2d0cb3b72d3d5d93d38d7e930220691d233b6c0f995be5acb03d70a7f7a65b6bc9bdd426260f38a1346669507a3601410462bb73f76ca0994fcb8b4271e6fb7561f5c0f9ca0cf6485261c4a0dc894f4ab844c6cdfb97cd0b60ffb5018ffd6238f4d87270efb1d3ae37079b794a92d7ec95fffffffff878af0d93f5229a68166cf051fd372bb7a537232946e0a46f53636b4dafdaa4000000008c493046022100c717d1714551663f69c3c5759bdbb3a0fcd3fab023abc0e522fe6440de35d8290221008d9cbe25bffc44af2b18e81c58eb37293fd7fe1c2e7b46fc37ee8c96c50ab1e201410462bb73f76ca0994fcb8b4271e6fb7561f5c0f9ca0cf6485261c4a0dc894f4ab844c6cdfb97cd0b60ffb5018ffd6238f4d87270efb1d3ae37079b794a92d7ec95ffffffff27f2b668859cd7f2f894aa0fd2d9e60963bcd07c88973f425f999b8cbfd7a1e2000000008c493046022100e00847147cbf517bcc2f502f3ddc6d284358d102ed20d47a8aa788a62f0db780022100d17b2d6fa84dcaf1c95d88d7e7c30385aecf415588d749afd3ec81f6022cecd701410462bb73f76ca0994fcb8b4271e6fb7561f5c0f9ca0cf6485261c4a0dc894f4ab844c6cdfb97cd0b60ffb5018ffd6238f4d87270efb1d3ae37079b794a92d7ec95ffffffff0100c817a8040000001976a914b6efd80d99179f4f4ff6f4dd0a007d018c385d2188ac00000000"

	// A transaction of the main chain with a witness. The tests of rust-bitcoin have it with
	// its id and with the hash of all of it.
	witnessID  = "f5864806e3565c34d1b41e716f72609d00b55ea5eac5b924c9719a842ef42206"
	witnessAll = "80b7d8a82d5d5bf92905b06f2014dd699e03837ca172e3a59d51426ebbe3e7f5"
	witness    = "02000000000101595895ea20179de87052b4046dfe6fd515860505d6511a9004cf12a1f93cac7c0100000000ffffffff01deb807000000000017a9140f3444e271620c736808aa7b33e370bd87cb5a078702483045022100fb60dad8df4af2841adc0346638c16d0b8035f5e3f3753b88db122e70c79f9370220756e6633b17fd2710e626347d28d60b0a2d6cbb41de51740644b9fb3ba77510401" +
		"21" + witnessKey + "00000000"
	witnessKey = "028fa937ca8cba2197a37c007176ed8941055d3bcb8627d085e94553e62f057dcc"
)

func mustParse(t testing.TB, b []byte) *Transaction {
	t.Helper()
	tx, err := ParseTransaction(b)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func mustID(t testing.TB, s string) [32]byte {
	t.Helper()
	id, err := ParseTxID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestParseTransaction_IDs(t *testing.T) {
	for _, c := range []struct {
		id, hex         string
		inputs, outputs int
		value           int64 // of the last output
	}{
		{paidID, paid, 1, 2, 0xde152f}, {spendsID, spends, 1, 2, 0x02a89440}, {generatedID, generated, 1, 1, 5_000_000_000},
		{addressID, address, 4, 1, 20_000_000_000}, {witnessID, witness, 1, 1, 0x07b8de},
	} {
		tx := mustParse(t, unhex(c.hex))
		if got := FormatTxID(tx.TxID); got != c.id || tx.TxID != mustID(t, c.id) {
			t.Errorf("the id is %s, want %s", got, c.id)
		}
		if len(tx.Inputs) != c.inputs || len(tx.Outputs) != c.outputs || tx.Outputs[c.outputs-1].Value != c.value {
			t.Errorf("%s has %d inputs, %d outputs: %+v", c.id, len(tx.Inputs), len(tx.Outputs), tx.Outputs)
		}
	}
	tx := mustParse(t, unhex(spends))
	if tx.Inputs[0].Previous != (OutPoint{TxID: mustID(t, paidID), Index: 0}) || len(tx.Inputs[0].Script) != 0x8c || len(tx.Outputs[1].Script) != 0x19 {
		t.Errorf("it spends %+v", tx.Inputs[0])
	}
}

// The id leaves out the witness, and only it.
func TestParseTransaction_Witness(t *testing.T) {
	b := unhex(witness)
	tx := mustParse(t, b)
	once := sha256.Sum256(b)
	if got := FormatTxID(sha256.Sum256(once[:])); got != witnessAll {
		t.Errorf("the hash of all is %s, want %s", got, witnessAll)
	}
	at := len(b) - 4 - 1 - 0x21 - 5 // in the signature
	other := bytes.Clone(b)
	other[at] ^= 1
	if mustParse(t, other).TxID != tx.TxID {
		t.Error("the id depends on the witness")
	}
	for _, at := range []int{0, 10, 50, len(b) - 1} {
		other := bytes.Clone(b)
		other[at] ^= 1
		if got, err := ParseTransaction(other); err == nil && got.TxID == tx.TxID {
			t.Errorf("the id does not depend on byte %d", at)
		}
	}
	// The same without the witness.
	plain := append(bytes.Clone(b[:4]), b[6:len(b)-4-1-0x49-0x22]...)
	plain = append(plain, b[len(b)-4:]...)
	if mustParse(t, plain).TxID != tx.TxID {
		t.Error("without its witness it has another id")
	}
}

func TestParseTransaction_Damage(t *testing.T) {
	for what, c := range map[string]struct{ hex, says string }{
		"nothing":                  {"", "at byte 0: 4 bytes are missing"},
		"no inputs":                {"01000000", "at byte 4: 1 bytes are missing"},
		"many inputs":              {"01000000" + "fdffff" + strings.Repeat("00", 100), "65535 parts of 41 bytes"},
		"endless inputs":           {"01000000" + "ffffffffffffffffff", "18446744073709551615 parts"},
		"a long number":            {"01000000" + "fd0100" + strings.Repeat("00", 100), "shortest form"},
		"a longer number":          {"01000000" + "fe01000000" + strings.Repeat("00", 100), "shortest form"},
		"the longest number":       {"01000000" + "ff0100000000000000" + strings.Repeat("00", 100), "shortest form"},
		"a long script":            {"01000000" + "01" + strings.Repeat("00", 36) + "10" + strings.Repeat("00", 14), "16 parts of 1 bytes or more in 14"},
		"many outputs":             {paid[:4*2+2+41*2+0x8b*2] + "7f" + strings.Repeat("00", 20), "127 parts of 9 bytes"},
		"a byte behind":            {paid + "00", "1 bytes behind it"},
		"a byte less":              {paid[:len(paid)-2], "1 bytes are missing"},
		"unknown flags":            {witness[:10] + "03" + witness[12:], "unknown flags 0x3"},
		"unknown flags, only":      {witness[:10] + "02" + witness[12:], "unknown flags 0x2"},
		"a form without a witness": {"01000000" + "0001" + paid[8:len(paid)-8] + "00" + "00000000", "no witness"},
	} {
		tx, err := ParseTransaction(unhex(c.hex))
		if tx != nil || !errors.Is(err, ErrTransaction) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, whole := range []string{paid, witness, address} {
		b := unhex(whole)
		for n := range b {
			if _, err := ParseTransaction(b[:n]); !errors.Is(err, ErrTransaction) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	}
	if _, err := ParseTransaction(make([]byte, MaxTransaction+1)); !errors.Is(err, ErrTransaction) || !strings.Contains(err.Error(), "4000000 are allowed") {
		t.Errorf("a large one: %v", err)
	}
}

func TestTxID(t *testing.T) {
	id := [32]byte{1, 2, 31: 0xff}
	s := "ff" + strings.Repeat("00", 29) + "0201"
	if got := FormatTxID(id); got != s || id[0] != 1 {
		t.Errorf("FormatTxID = %s, want %s", got, s)
	}
	if got := mustID(t, s); got != id {
		t.Errorf("ParseTxID = %x", got)
	}
	for _, s := range []string{"", "00", s + "00", s[:63] + "g"} {
		if _, err := ParseTxID(s); !errors.Is(err, ErrParameters) {
			t.Errorf("ParseTxID(%q): %v", s, err)
		}
	}
}

// transaction returns the form without witnesses.
func transaction(inputs []Input, outputs []Output) []byte {
	b := append(unhex("01000000"), byte(len(inputs)))
	for _, in := range inputs {
		o := in.Previous.serialized()
		b = append(append(append(b, o[:]...), byte(len(in.Script))), in.Script...)
		b = append(b, 0xff, 0xff, 0xff, 0xff)
	}
	b = append(b, byte(len(outputs)))
	for _, out := range outputs {
		b = binary.LittleEndian.AppendUint64(b, uint64(out.Value))
		b = append(append(b, byte(len(out.Script))), out.Script...)
	}
	return append(b, 0, 0, 0, 0)
}
