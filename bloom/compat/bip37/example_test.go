package bip37_test

import (
	"encoding/hex"
	"fmt"

	"github.com/shaledb/shale/bloom/compat/bip37"
)

// The payload of a filterload for three addresses.
func Example() {
	f, err := bip37.New(3, 0.01, 0, bip37.UpdateAll)
	if err != nil {
		panic(err)
	}
	for _, address := range []string{
		"99108ad8ed9bb6274d3980bab5a85c048f0950c8",
		"b5a2c786d9ef4658287ced5914b37a1b4aa32eee",
		"b9300670b4c5366e95b2699e8b18bc75e5f729c5",
	} {
		b, err := hex.DecodeString(address)
		if err != nil {
			panic(err)
		}
		f.Add(b)
	}
	payload, err := f.MarshalBinary()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n", payload)
	// Output: 03614e9b050000000000000001
}
