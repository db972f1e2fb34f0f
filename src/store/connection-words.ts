/**
 * What can go wrong on a connection, in a code of ours and with what to do: by the SQLSTATE or the system's code, and where
 * the driver gives none, by its message. Data only.
 */

/** A code of ours, and what to do. */
export type Words = readonly [code: string, hint: string];

const CERTIFICATE =
  "its certificate is not trusted here: name its authority with sslrootcert=FILE in the connection string, or correct the host";

const BY_CODE: Readonly<Record<string, Words>> = {
  ECONNREFUSED: ["server_unreachable", "nothing listens there: start the server, or correct the address"],
  ENOTFOUND: ["server_unreachable", "the host name is not known: correct the address"],
  EAI_AGAIN: ["server_unreachable", "the host name could not be looked up: look at the network, or try again"],
  ETIMEDOUT: ["server_unreachable", "the server did not answer: correct the address, or look at the network"],
  ECONNRESET: ["server_unreachable", "the connection was cut: try again, and look at the server's log"],
  EPIPE: ["server_unreachable", "the connection was cut: try again, and look at the server's log"],
  EHOSTUNREACH: ["server_unreachable", "no way leads to the host: look at the network"],
  ENETUNREACH: ["server_unreachable", "no way leads to the host: look at the network"],
  "28P01": ["login_refused", "correct the user or password in the connection string"],
  "28000": ["login_refused", "the server does not let this user in: look at pg_hba.conf"],
  "3D000": ["database_missing", "create the database, or correct its name in the connection string"],
  "3F000": ["ledger_missing", "run pg-effects migrate first"],
  "42P01": ["ledger_missing", "run pg-effects migrate first"],
  "42883": ["ledger_missing", "run pg-effects migrate first"],
  "53300": ["connections_exhausted", "the server has no connection left: lower the pools or raise max_connections"],
  "57P01": ["server_unreachable", "an administrator ended the connection: ask again"],
  "57P02": ["server_unreachable", "the server crashed and starts again: ask again, and look at its log"],
  "57P03": ["server_unreachable", "the server is starting up or shutting down: try again"],
  "55P03": [
    "lock_timeout",
    "another transaction holds what this needs: find it with pg_blocking_pids, end it, ask again; nothing of this stands",
  ],
  "57014": ["statement_timeout", "it took too long, or somebody cancelled it: ask again; nothing of this stands"],
  DEPTH_ZERO_SELF_SIGNED_CERT: ["tls_failed", CERTIFICATE],
  SELF_SIGNED_CERT_IN_CHAIN: ["tls_failed", CERTIFICATE],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ["tls_failed", CERTIFICATE],
  UNABLE_TO_GET_ISSUER_CERT: ["tls_failed", CERTIFICATE],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ["tls_failed", CERTIFICATE],
  ERR_TLS_CERT_ALTNAME_INVALID: ["tls_failed", "its certificate is for another host: correct the host"],
  CERT_HAS_EXPIRED: ["tls_failed", "its certificate has expired: renew it"],
  EPROTO: ["tls_failed", "the two sides agree on no TLS: look at ssl_min_protocol_version, and at the port"],
};

/** The driver's own errors, which have no code, and codes that files have too. */
const BY_MESSAGE: readonly (readonly [message: RegExp, words: Words])[] = [
  [
    /timeout expired|timeout exceeded when trying to connect|due to connection timeout/,
    ["server_unreachable", "the server did not answer within 10 s: is it Postgres that listens on that port?"],
  ],
  [
    /Connection terminated|Connection ended/,
    ["server_unreachable", "what listens there cut the connection: is it Postgres on that port? Its log says why"],
  ],
  [/does not support SSL/, ["tls_failed", "take sslmode out of the connection string, or switch ssl on at the server"]],
  [/establishing an SSL connection/, ["tls_failed", "what listens there speaks no TLS of Postgres: correct the port"]],
  [/^connect ENOENT/, ["server_unreachable", "there is no such socket: start the server, or correct the path"]],
  [/^connect EACCES/, ["server_unreachable", "this user may not open that socket"]],
  [/^SASL: .*password must be/, ["login_refused", "the server wants a password, and the connection string has none"]],
  [/^SASL: /, ["login_refused", "the server could not prove that it knows this password: is it the right server?"]],
];

/** The words for a failure, or undefined where it is not one of the connection's. */
export function connectionWords(code: string | undefined, message: string): Words | undefined {
  if (code !== undefined && Object.hasOwn(BY_CODE, code)) return BY_CODE[code];
  return BY_MESSAGE.find(([pattern]) => pattern.test(message))?.[1];
}
