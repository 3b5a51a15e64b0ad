"""The tables of a library. The search index beside them can be rebuilt at any time.

A card's row is valid from one library version until another, so any version can be read again. Rows are never deleted or
overwritten, except that an open `valid_to` is closed. Trials, attempts and uses are only ever added.
"""

DATABASE_SCHEMA = 1

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE changes (
  version INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  note TEXT NOT NULL
);

CREATE TABLE cards (
  row INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  valid_from INTEGER NOT NULL REFERENCES changes (version),
  valid_to INTEGER,
  hash TEXT NOT NULL,
  signature BLOB NOT NULL,
  body TEXT NOT NULL
);
CREATE UNIQUE INDEX one_current_card_per_name ON cards (name) WHERE valid_to IS NULL;
CREATE INDEX cards_by_name ON cards (name, valid_from);
CREATE INDEX cards_by_start ON cards (valid_from);
CREATE INDEX cards_by_end ON cards (valid_to) WHERE valid_to IS NOT NULL;
CREATE INDEX cards_by_hash ON cards (hash);
CREATE INDEX current_cards_by_state ON cards (state, name) WHERE valid_to IS NULL;

CREATE TABLE merges (
  version INTEGER NOT NULL REFERENCES changes (version),
  name TEXT NOT NULL,
  into_name TEXT,
  PRIMARY KEY (name, version)
) WITHOUT ROWID;
CREATE INDEX merges_by_target ON merges (into_name);

CREATE TABLE trials (
  row INTEGER PRIMARY KEY,
  version INTEGER NOT NULL REFERENCES changes (version),
  skill TEXT NOT NULL,
  key TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL
);
CREATE INDEX trials_by_skill ON trials (skill, row);

CREATE TABLE attempts (
  proof TEXT NOT NULL,
  job TEXT NOT NULL,
  verdict TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY (proof, job)
) WITHOUT ROWID;

CREATE TABLE uses (
  row INTEGER PRIMARY KEY,
  version INTEGER NOT NULL REFERENCES changes (version),
  episode TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL
);
"""
