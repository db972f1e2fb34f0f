/** Exit codes: documented, closed, and decided from an error's code only. One table; what is not in it is a fault. */

export const EXIT = {
  done: 0,
  fault: 1,
  usage: 2,
  /** Finished, and something is unresolved. */
  unresolved: 3,
  refused: 4,
  /** The deadline was reached, or Ctrl-C stopped it, and the rest was not reached. */
  deadline: 5,
  /** The ledger is closed: recovery, standby, durability. */
  closed: 6,
  /** Ctrl-C ended the watching: as shells count SIGINT. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const EXIT_OF: Readonly<Record<string, ExitCode>> = {
  // The command itself is wrong: the same again is wrong again, whatever the ledger holds.
  usage_invalid: EXIT.usage,
  connection_string_missing: EXIT.usage,
  connection_string_invalid: EXIT.usage,
  ledger_name_invalid: EXIT.usage,
  duration_invalid: EXIT.usage,
  moment_invalid: EXIT.usage,
  number_invalid: EXIT.usage,
  json_invalid: EXIT.usage,
  input_unreadable: EXIT.usage,
  list_invalid: EXIT.usage,
  scope_invalid: EXIT.usage,
  deadline_invalid: EXIT.usage,
  concurrency_invalid: EXIT.usage,
  tasks_missing: EXIT.usage,
  tasks_empty: EXIT.usage,
  role_prefix_invalid: EXIT.usage,
  key_private: EXIT.usage,
  key_invalid: EXIT.usage,
  signature_invalid: EXIT.usage,
  authority_file_invalid: EXIT.usage,
  "22023": EXIT.usage, // a parameter's value that the ledger's functions have no meaning for

  // Somebody said no: the ledger, its owner, or what is not built.
  "0A000": EXIT.refused,
  "42501": EXIT.refused,
  ledger_differs: EXIT.refused,
  effect_unknown: EXIT.refused,
  effect_ambiguous: EXIT.refused,
  reconciliation_unknown: EXIT.refused,
  operation_unknown: EXIT.refused,
  task_unknown: EXIT.refused,
  migration_changed: EXIT.refused,
  migration_newer: EXIT.refused,
  roles_differ: EXIT.refused,
  roles_missing: EXIT.refused,
  roles_denied: EXIT.refused,
  worker_role_missing: EXIT.refused,
  approval_unwanted: EXIT.refused,
  approval_unknown: EXIT.refused,
  signature_wrong: EXIT.refused,
  statement_differs: EXIT.refused,
  authority_refused: EXIT.refused,
  authority_changed: EXIT.refused,
  strict_ledger: EXIT.refused,

  recovery_unacknowledged: EXIT.closed,
  ledger_standby: EXIT.closed,
  durability_missing: EXIT.closed,
  violation_unacknowledged: EXIT.closed,
  "25006": EXIT.closed, // a write on a standby
};

/** The exit code of an error's code. Class PE is the ledger's own refusals. */
export function exitCodeOf(code: string): ExitCode {
  if (/^PE1\d\d$/.test(code)) return EXIT.refused;
  return EXIT_OF[code] ?? EXIT.fault;
}

/** For --help: the same words everywhere. */
export const EXIT_CODES_HELP = `Exit codes:
  0  done
  1  fault: something does not work (no server, no ledger, a broken file)
  2  wrong usage: the command itself, or no connection string
  3  finished, and something is unresolved
  4  refused: by the ledger, or because it is not built yet
  5  deadline reached, or stopped between two: rest not reached
  6  the ledger is closed: recovery, standby, durability (see doctor)
  130  Ctrl-C ended the watching, not what is watched`;
