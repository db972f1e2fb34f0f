/** The parts of a plan that are about people and programs: in whose name effects are requested, and who approves them. */
import { adding, type Draft, revoking } from "./plan-draft.ts";
import type { PresentAuthority, WantedAuthority } from "./wanted-authority.ts";

export function planActors(draft: Draft, { actors }: WantedAuthority, present: PresentAuthority): void {
  for (const [place, { actor, spoken_by, revoked }] of actors.entries()) {
    const at = `actors[${place}]`;
    const known = present.actors.find((each) => each.actor === actor);
    const object = `actor ${actor}`;
    if (revoked) {
      if (!known) draft.problem(at, `no actor is named ${actor}, so nothing of it can be revoked`);
      else if (!known.revoked) draft.change(at, revoking(object, { do: "revoke_actor", actor }));
      continue;
    }
    if (known?.revoked) {
      draft.problem(at, `the actor ${actor} is revoked, for good: register another name`);
      continue;
    }
    const speaks = (login: string) => present.speakers.some((each) => each.actor === actor && each.spoken_by === login);
    const speakers = spoken_by.filter((each) => !each.revoked && !speaks(each.login));
    if (!known && speakers.length === 0)
      draft.change(at, adding(object, null, { do: "add_actor", actor, login: null }));
    for (const { login } of speakers) {
      draft.change(`${at}.spoken_by`, adding(object, `spoken by ${login}`, { do: "add_actor", actor, login }));
    }
    for (const { login } of spoken_by.filter((each) => each.revoked && speaks(each.login))) {
      draft.change(`${at}.spoken_by`, revoking(`${object} spoken by ${login}`, { do: "revoke_speaker", actor, login }));
    }
  }
}

export function planApprovers(draft: Draft, { approvers }: WantedAuthority, present: PresentAuthority): void {
  for (const [place, { approver, public_key, revoked }] of approvers.entries()) {
    const at = `approvers[${place}]`;
    const keys = present.approvers.filter((each) => each.approver === approver);
    const known = present.approvers.find((each) => each.public_key === public_key);
    if (revoked) {
      const meant = public_key === undefined ? keys : keys.filter((each) => each.public_key === public_key);
      if (meant.length === 0) draft.problem(at, `${approver} has no such key, so nothing can be revoked`);
      for (const { key_id } of meant.filter((each) => !each.revoked)) {
        draft.change(at, revoking(`approver ${approver} key ${key_id}`, { do: "revoke_approver", approver: key_id }));
      }
    } else if (known && (known.approver !== approver || known.revoked)) {
      draft.problem(`${at}.public_key`, `this key is ${known.approver}'s${known.revoked ? ", and revoked" : ""}`);
    } else if (!known && public_key !== undefined) {
      draft.change(
        at,
        adding(`approver ${approver}`, `key ${public_key}`, { do: "add_approver", approver, public_key }),
      );
    }
  }
}
