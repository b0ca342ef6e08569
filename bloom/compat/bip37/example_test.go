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

// A node with the filter of a client: the first transaction pays to its address, and the
// second spends that.
func ExampleFilter_MatchAndUpdate() {
	f, err := bip37.New(10, 0.000001, 0, bip37.UpdateAll)
	if err != nil {
		panic(err)
	}
	f.Add(unhex("04943fdd508053c75000106d3bc6e2754dbcff19"))
	for _, message := range []string{
		"01000000010b26e9b7735eb6aabdf358bab62f9816a21ba9ebdb719d5299e88607d722c190000000008b4830450220070aca44506c5cef3a16ed519d7c3c39f8aab192c4e1c90d065f37b8a4af6141022100a8e160b856c2d43d27d8fba71e5aef6405b8643ac4cb7cb3c462aced7f14711a0141046d11fee51b0e60666d5049a9101a72741df480b96ee26488a4d3466b95c9a40ac5eeef87e10a5cd336c19a84565f80fa6c547957b7700ff4dfbdefe76036c339ffffffff021bff3d11000000001976a91404943fdd508053c75000106d3bc6e2754dbcff1988ac2f15de00000000001976a914a266436d2965547608b9e15d9032a7b9d64fa43188ac00000000",
		"01000000016bff7fcd4f8565ef406dd5d63d4ff94f318fe82027fd4dc451b04474019f74b4000000008c493046022100da0dc6aecefe1e06efdf05773757deb168820930e3b0d03f46f5fcf150bf990c022100d25b5c87040076e4f253f8262e763e2dd51e7ff0be157727c4bc42807f17bd39014104e6c26ef67dc610d2cd192484789a6cf9aea9930b944b7e2db5342b9d9e5b9ff79aff9a2ee1978dd7fd01dfc522ee02283d3b06a9d03acf8096968d7dbb0f9178ffffffff028ba7940e000000001976a914badeecfdef0507247fc8f74241d73bc039972d7b88ac4094a802000000001976a914c10932483fec93ed51f5fe95e72559f2cc7043f988ac00000000",
	} {
		t, err := bip37.ParseTransaction(unhex(message))
		if err != nil {
			panic(err)
		}
		fmt.Println(bip37.FormatTxID(t.TxID)[:8], f.MatchAndUpdate(t))
	}
	// Output:
	// b4749f01 true
	// e2769b09 true
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
