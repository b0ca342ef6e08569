package object

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/remotetest"
)

func TestIdentity_RefusesWhatCannotBe(t *testing.T) {
	tryRefusals(t, func() *Identity { return &Identity{StoreID: 1, Created: remotetest.ExampleTime} },
		func(i *Identity) ([]byte, error) { return i.Encode(nil) },
		refusals[Identity]{
			"no time":         func(i *Identity) { i.Created = time.Time{} },
			"a time too late": func(i *Identity) { i.Created = time.UnixMilli(maxMilli + 1) },
		})
	b := binary.LittleEndian.AppendUint64(AppendHead(nil, identityMagic, 1), maxMilli+1)
	if i, err := DecodeIdentity(AppendSum(b, 0)); err == nil || !strings.Contains(err.Error(), "after the year 9999") {
		t.Errorf("DecodeIdentity = %+v, %v", i, err)
	}
}
