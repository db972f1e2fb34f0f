/**
 * What an approver sees is what is signed: a statement is shown only beside the bound bytes that its digest is of, read
 * from these bytes and from nothing else. Whoever stands between the ledger and the approver can withhold, not alter.
 */
import { amountsToJson } from "./amount.ts";
import { type ApprovalStatement, readStatement } from "./approval.ts";
import { type BindingBody, readBinding } from "./binding.ts";
import { BINDING_VERSION, bindingDigest } from "./digest.ts";
import { LedgerError } from "./error.ts";

/** A statement, and the binding that it is about. */
export interface SeenStatement {
  readonly statement: ApprovalStatement;
  readonly binding: BindingBody;
}

/**
 * Reads a statement about an effect beside the stored bytes of its binding.
 * @throws LedgerError `statement_differs` where the bytes do not hash to the statement's digest, or say something else.
 */
export function seenStatement(
  statementBytes: Uint8Array,
  bound: { readonly effectId: string; readonly version: number; readonly bytes: Uint8Array },
): SeenStatement {
  const { effectId } = bound;
  const statement = readStatement(statementBytes);
  if (!statement) throw differs("it is no statement that this version reads", effectId);
  if (statement.effect !== effectId) throw differs("it is about another effect", effectId);
  if (bound.version !== BINDING_VERSION) throw differs(`its binding has the form ${bound.version}`, effectId);
  if (bindingDigest(bound.bytes).toString("hex") !== statement.digest) {
    throw differs("its digest is not of the bytes that are bound", effectId);
  }
  const binding = readBinding(Buffer.from(bound.bytes).toString("utf8"));
  const said = {
    ledger: statement.ledger,
    effect: statement.effect,
    operation: statement.operation,
    version: statement.version,
  };
  const other = Object.entries(said).find(([field, value]) => binding[field as keyof BindingBody] !== value);
  if (other) throw differs(`it names another ${other[0]} than the binding`, effectId);
  if (JSON.stringify(amountsToJson(statement.maximumCost)) !== JSON.stringify(sorted(binding.maximum_cost))) {
    throw differs("its maximum cost is not the binding's", effectId);
  }
  return { statement, binding };
}

function sorted(amounts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(amounts).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function differs(how: string, effectId: string): LedgerError {
  return new LedgerError("statement_differs", `this statement is not to be signed: ${how}`, {
    hint: "sign nothing; ask for the statement again, and tell the ledger's owner if it comes again",
    effectId,
  });
}
