/**
 * The same five things as plain graphile-worker tasks, as one writes them on the first day: do it, and throw if it did not
 * work. None has a key of its own: a task has a stable one only if its author makes one, for example of the job's id.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { TaskList } from "graphile-worker";
import { createTransport } from "nodemailer";
import { Client } from "pg";
import { given } from "../child-end.ts";

interface Charge {
  readonly customer: string;
  readonly cents: number;
}
interface Push {
  readonly branch: string;
  readonly commit: string;
}
interface Shipment {
  readonly order_no: string;
  readonly packed_by: string;
}
interface Mail {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

export const plainTasks: TaskList = {
  charge_card: async (payload) => {
    const { customer, cents } = payload as Charge;
    const answer = await fetch(`${given("CARDS_URL")}/v1/charges`, {
      method: "POST",
      headers: { authorization: `Bearer ${given("CARDS_KEY")}`, "content-type": "application/json" },
      body: JSON.stringify({ customer, amount: cents, currency: "usd" }),
    });
    if (!answer.ok) throw new Error(`the card API answered ${answer.status}`);
  },

  git_push: async (payload) => {
    const { branch, commit } = payload as Push;
    const push = ["push", "--quiet", given("GIT_REMOTE"), `${commit}:refs/heads/${branch}`];
    await promisify(execFile)("git", ["-C", given("GIT_WORK_FOLDER"), ...push]);
  },

  postgres_insert: async (payload) => {
    const { order_no, packed_by } = payload as Shipment;
    const client = new Client({ connectionString: given("RECIPIENT_URL") });
    client.on("error", () => {}); // the query under way rejects with the same error, and the task with it
    await client.connect();
    try {
      await client.query("insert into public.shipment (order_no, packed_by) values ($1, $2)", [order_no, packed_by]);
    } finally {
      await client.end();
    }
  },

  mail_send: async (payload) => {
    const { from, to, subject, text } = payload as Mail;
    await createTransport(given("MAIL_URL")).sendMail({ from, to, subject, text });
  },
};
