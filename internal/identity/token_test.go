package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// zeroes is a source of no randomness.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// tokenMap keeps records as control does: by compare and swap.
type tokenMap struct {
	mu      sync.Mutex
	records map[string]TokenRecord // :: token id → record
	version map[string]uint64      // :: token id → version
	lose    error                  // the next UseToken is done, and answered with this
}

func newTokenMap(recs ...TokenRecord) *tokenMap {
	m := &tokenMap{records: map[string]TokenRecord{}, version: map[string]uint64{}}
	for _, r := range recs {
		m.records[r.ID], m.version[r.ID] = r, 1
	}
	return m
}

func (m *tokenMap) Token(_ context.Context, id string) (TokenRecord, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.records[id]
	if !ok {
		return TokenRecord{}, 0, fmt.Errorf("%w: it is not known", ErrTokenInvalid)
	}
	return rec, m.version[id], nil
}

func (m *tokenMap) UseToken(_ context.Context, rec TokenRecord, version uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version[rec.ID] != version {
		return ErrTokenRace
	}
	m.records[rec.ID] = rec
	m.version[rec.ID]++
	lost := m.lose
	m.lose = nil
	return lost
}

const someFingerprint = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func mint(t *testing.T, role Role, name string) (string, TokenRecord) {
	t.Helper()
	token, rec, err := MintToken(role, name, someFingerprint, time.Now(), 0, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token, rec
}

func newRequest(t *testing.T, token string, role Role, name string) JoinRequest {
	t.Helper()
	return JoinRequest{Token: token, Role: role, Name: name, CSR: must[[]byte](t)(newKeystore(t, time.Now).NewCSR())}
}

func redeem(t *testing.T, m *tokenMap, req JoinRequest) (ID, error) {
	return Redeem(t.Context(), m, req, DefaultTrustDomain, time.Now())
}

func TestATokenIsGoodForOneKeyOnly(t *testing.T) {
	token, rec := mint(t, Host, "")
	m := newTokenMap(rec)
	first := newRequest(t, token, Host, "h1")
	want := ID{DefaultTrustDomain, Host, "h1"}
	for range 2 { // the same key may ask again: the answer may have been lost
		if got, err := redeem(t, m, first); err != nil || got != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := redeem(t, m, newRequest(t, token, Host, "h1")); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("another key, same name: %v", err)
	}
	first.Name = "h2"
	if _, err := redeem(t, m, first); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("same key, another name: %v", err)
	}
}

func TestOfManyBearersAtOnceOneJoins(t *testing.T) {
	token, rec := mint(t, Host, "")
	m := newTokenMap(rec)
	const bearers = 16
	results := make(chan error, bearers)
	begin := make(chan struct{})
	for i := range bearers {
		req := newRequest(t, token, Host, fmt.Sprintf("h%d", i))
		go func() {
			<-begin
			_, err := redeem(t, m, req)
			results <- err
		}()
	}
	close(begin)
	joined := 0
	for range bearers {
		err := <-results
		if err == nil {
			joined++
		} else if !errors.Is(err, ErrTokenUsed) {
			t.Error(err)
		}
	}
	if joined != 1 {
		t.Errorf("%d joined by one token", joined)
	}
}

func TestAUseWhoseAnswerIsLostCanBeRepeatedByTheSameKey(t *testing.T) {
	token, rec := mint(t, Gateway, "g")
	m := newTokenMap(rec)
	m.lose = errors.New("connection died")
	req := newRequest(t, token, Gateway, "")
	if _, err := redeem(t, m, req); err == nil {
		t.Error("an unknown answer was taken for done")
	}
	if got, err := redeem(t, m, req); err != nil || got.Name != "g" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestATokenIsBoundToItsRoleNameAndTime(t *testing.T) {
	token, rec := mint(t, Gateway, "g")
	other, _ := mint(t, Gateway, "g")
	parts := strings.Split(other, ".")
	mixed := strings.Join([]string{"fl1", rec.ID, parts[2], parts[3]}, ".")
	for name, c := range map[string]struct {
		req  JoinRequest
		at   time.Duration
		want error
		text string
	}{
		"another role":           {newRequest(t, token, Host, "g"), 0, ErrTokenInvalid, "for a host: it is for a gateway"},
		"another name":           {newRequest(t, token, Gateway, "h"), 0, ErrTokenInvalid, `"g"`},
		"another token's secret": {newRequest(t, mixed, Gateway, "g"), 0, ErrTokenInvalid, ""},
		"unknown":                {newRequest(t, other, Gateway, "g"), 0, ErrTokenInvalid, "not known"},
		"expired":                {newRequest(t, token, Gateway, "g"), 4 * time.Hour, ErrTokenExpired, "3 hours ago"},
		"no proof of a key":      {JoinRequest{Token: token, Role: Gateway, CSR: []byte("x")}, 0, nil, "certificate request"},
	} {
		m := newTokenMap(rec)
		_, err := Redeem(t.Context(), m, c.req, DefaultTrustDomain, time.Now().Add(c.at))
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
		if m.records[rec.ID].UsedKey != "" {
			t.Errorf("%s: the refused use was recorded", name)
		}
	}
}

func TestATamperedTokenIsRefused(t *testing.T) {
	token, rec := mint(t, Host, "")
	for i := range token {
		for _, c := range []byte("a0.Z") {
			changed := token[:i] + string(c) + token[i+1:]
			tok, err := ParseToken(changed)
			if changed == token || err != nil {
				continue
			}
			// What the fingerprint protects is the client's view of the server.
			if tok.Matches(rec, time.Now()) == nil && tok.Authority == someFingerprint[:32] {
				t.Errorf("changed at %d and still good: %s", i, changed)
			}
		}
	}
	for _, s := range []string{"", "fl1", token + "x", token[:len(token)-1], "x" + token, strings.ToUpper(token), "fl2" + token[3:]} {
		if _, err := ParseToken(s); !errors.Is(err, ErrTokenInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestNeitherRecordNorPrintedTokenHoldsTheSecret(t *testing.T) {
	token, rec := mint(t, Host, "")
	secret := strings.Split(token, ".")[2]
	tok := must[Token](t)(ParseToken(token))
	for _, shown := range []string{fmt.Sprintf("%+v", rec), fmt.Sprint(tok), fmt.Sprintf("%+v", tok), fmt.Sprintf("%#v", tok), fmt.Sprintf("%v", struct{ T Token }{tok})} {
		if strings.Contains(shown, secret) {
			t.Errorf("the secret is in %q", shown)
		}
	}
}

func TestATokenThatCannotBeIsNotMinted(t *testing.T) {
	for _, c := range []struct {
		role              Role
		name, fingerprint string
	}{{"king", "", someFingerprint}, {Operator, "", someFingerprint}, {Host, "../x", someFingerprint}, {Host, "", "00"}} {
		if _, _, err := MintToken(c.role, c.name, c.fingerprint, time.Now(), 0, rand.Reader); err == nil {
			t.Errorf("minted: %+v", c)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	token, _, err := MintToken(Host, "", someFingerprint, time.Now(), 0, zeroes{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add("fl1...")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s)
		if err != nil {
			if !errors.Is(err, ErrTokenInvalid) {
				t.Errorf("%v", err)
			}
			return
		}
		if got := tok.text(); got != strings.TrimSpace(s) {
			t.Errorf("%q was read as %q", s, got)
		}
	})
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"spiffe://fairlead/host/a", "spiffe://fairlead/host/", "spiffe://x/operator/a.b-c", "spiffe://fairlead/host/..", "http://fairlead/host/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			return
		}
		if id.String() != s || id.check() != nil || strings.ContainsAny(id.Name, "/\\") || strings.HasPrefix(id.Name, ".") {
			t.Errorf("%q was read as %+v", s, id)
		}
	})
}

// raced lets another bearer win between the read and the write.
type raced struct {
	*tokenMap
	first func()
}

func (r *raced) UseToken(ctx context.Context, rec TokenRecord, version uint64) error {
	if first := r.first; first != nil {
		r.first = nil
		first()
	}
	return r.tokenMap.UseToken(ctx, rec, version)
}

func TestTheLoserOfARaceForATokenIsToldWhoWon(t *testing.T) {
	token, rec := mint(t, Host, "")
	m := newTokenMap(rec)
	winner, loser := newRequest(t, token, Host, "winner"), newRequest(t, token, Host, "loser")
	r := &raced{tokenMap: m, first: func() {
		if _, err := redeem(t, m, winner); err != nil {
			t.Error(err)
		}
	}}
	_, err := Redeem(t.Context(), r, loser, DefaultTrustDomain, time.Now())
	if !errors.Is(err, ErrTokenUsed) || !strings.Contains(err.Error(), "host/winner") {
		t.Errorf("the loser is told: %v", err)
	}
}
