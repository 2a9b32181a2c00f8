package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// TokenStore is where control keeps token records.
type TokenStore interface {
	// Token returns the record and its version, or an error wrapping
	// ErrTokenInvalid when there is none of that id.
	Token(ctx context.Context, id string) (TokenRecord, uint64, error)
	// UseToken replaces the record bound to the version that was read. It
	// returns an error wrapping ErrTokenRace, having changed nothing, when
	// another version stands. Any other error says nothing about what happened.
	UseToken(ctx context.Context, rec TokenRecord, version uint64) error
}

// ErrTokenRace is the answer of [TokenStore.UseToken] to the loser of a race.
var ErrTokenRace = errors.New("token record was changed meanwhile")

// JoinRequest is what a joining role sends.
type JoinRequest struct {
	Token string
	Role  Role   // that the bearer wants to be; empty takes the token's
	Name  string // may be empty where the token is bound to a name
	CSR   []byte // PEM
}

// Redeem uses a token up and says which identity its bearer may have. Only one
// key ever gets one: of two bearers at once one wins. The same key may ask
// again by the same token for the same identity until it expires, since the
// first answer may have been lost on the way.
func Redeem(ctx context.Context, tokens TokenStore, req JoinRequest, trustDomain string, now time.Time) (ID, error) {
	tok, err := ParseToken(req.Token)
	if err != nil {
		return ID{}, err
	}
	csr, err := parseCSR(req.CSR)
	if err != nil {
		return ID{}, err
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	use := use{tok: tok, req: req, key: hex.EncodeToString(sum[:]), trustDomain: trustDomain, now: now}
	// The loser of a race reads again, once: the record is then a used one.
	for range 2 {
		var id ID
		if id, err = use.once(ctx, tokens); !errors.Is(err, ErrTokenRace) {
			return id, err
		}
	}
	return ID{}, err
}

type use struct {
	tok         Token
	req         JoinRequest
	key         string
	trustDomain string
	now         time.Time
}

func (u use) once(ctx context.Context, tokens TokenStore) (ID, error) {
	rec, version, err := tokens.Token(ctx, u.tok.ID)
	if err != nil {
		return ID{}, err
	}
	if err := u.tok.Matches(rec, u.now); err != nil {
		return ID{}, err
	}
	id, err := u.identity(rec)
	if err != nil {
		return ID{}, err
	}
	if rec.UsedKey != "" {
		if rec.UsedKey == u.key && rec.UsedBy == id.String() {
			return id, nil
		}
		return ID{}, fmt.Errorf("%w, by %s: create a new one", ErrTokenUsed, rec.UsedBy)
	}
	rec.UsedKey, rec.UsedBy = u.key, id.String()
	if err := tokens.UseToken(ctx, rec, version); err != nil {
		return ID{}, fmt.Errorf("cannot use join token: %w", err)
	}
	return id, nil
}

func (u use) identity(rec TokenRecord) (ID, error) {
	if u.req.Role != "" && u.req.Role != rec.Role {
		return ID{}, fmt.Errorf("%w for a %s: it is for a %s", ErrTokenInvalid, u.req.Role, rec.Role)
	}
	name := u.req.Name
	if name == "" {
		name = rec.Name
	}
	if rec.Name != "" && name != rec.Name {
		return ID{}, fmt.Errorf("%w for the name %q: it is for %q", ErrTokenInvalid, name, rec.Name)
	}
	id := ID{TrustDomain: u.trustDomain, Role: rec.Role, Name: name}
	if err := id.check(); err != nil {
		return ID{}, fmt.Errorf("cannot join: %w", err)
	}
	return id, nil
}
