/**
 * A real mail server for tests, from Debian's packages: Postfix takes SMTP, queues, and hands over by LMTP to Dovecot, which
 * serves IMAP. On loopback, in a folder of its own, as children of this process. It takes mail for anybody at example.test;
 * the IMAP user is the address, the password `pw`.
 *
 * Where the packages or the rights are missing it says why, and the tests that need it are skipped by that name.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/postgres/port.ts";
import { waitFor } from "../harness/wait.ts";

const POSTFIX = "/usr/sbin/postfix";
const DOVECOT = "/usr/sbin/dovecot";
/** Both are up within three seconds on a small machine. */
const START_MS_MAX = 20_000;
const STOP_MS_MAX = 5_000;

export interface MailServer {
  readonly smtpPort: number;
  imapUrl(address: string): string;
  /** The mails in the address's mailbox, as they lie on the disk. */
  mailsOf(address: string): Promise<readonly string[]>;
  stop(): Promise<void>;
}

/** Why it cannot be had here, or false: what node:test takes as `skip`. Not a promise: tests are declared at once. */
export function mailServerMissing(): string | false {
  if (process.getuid?.() !== 0) return "Postfix and Dovecot are started by root only";
  const programs = [POSTFIX, DOVECOT, "/usr/lib/dovecot/lmtp", "/usr/lib/dovecot/imap"];
  const absent = programs.find((program) => !existsSync(program));
  return absent ? `${absent} is not installed (Debian: postfix, dovecot-imapd, dovecot-lmtpd)` : false;
}

export async function startMailServer(): Promise<MailServer> {
  const folder = await mkdtemp(join(tmpdir(), "pg-effects-mail-"));
  await chmod(folder, 0o755); // the servers' own users pass through it
  const [smtpPort, imapPort] = [await freePort(), await freePort()];
  await writeDovecot(folder, imapPort);
  await writePostfix(folder, smtpPort);
  const dovecot = spawn(DOVECOT, ["-F", "-c", join(folder, "dovecot.conf")], { stdio: "ignore" });
  const postfix = spawn(POSTFIX, ["-c", join(folder, "postfix"), "start-fg"], { stdio: "ignore" });
  const stop = async (): Promise<void> => {
    // Postfix's master is a session of its own below the script that we started: only its own command ends it.
    const stopper = spawn(POSTFIX, ["-c", join(folder, "postfix"), "stop"], { stdio: "ignore" });
    await Promise.all([once(stopper, "close"), end(dovecot), end(postfix)]);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await Promise.all([greeted(smtpPort, "220 "), greeted(imapPort, "* OK")]);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    smtpPort,
    imapUrl: (address) => `imap://${encodeURIComponent(address)}:pw@127.0.0.1:${imapPort}`,
    mailsOf: (address) => readMaildir(join(folder, "store", address)),
    stop,
  };
}

async function writeDovecot(folder: string, port: number): Promise<void> {
  const [uid, gid] = await idsOf("mail");
  const store = join(folder, "store");
  await mkdir(store);
  await chown(store, uid, gid);
  const config = `
protocols = imap lmtp
base_dir = ${folder}/run
instance_name = pg-effects-test
log_path = ${folder}/dovecot.log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:${store}/%u
listen = 127.0.0.1
default_login_user = nobody
default_internal_user = dovecot
auth_failure_delay = 0
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
first_valid_uid = 1
passdb {
  driver = static
  args = password=pw
}
userdb {
  driver = static
  args = uid=${uid} gid=${gid} home=${store}/%u allow_all_users=yes
}
service imap-login {
  inet_listener imap {
    port = ${port}
  }
  inet_listener imaps {
    port = 0
  }
}
service lmtp {
  unix_listener ${folder}/lmtp {
    mode = 0666
  }
}
namespace inbox {
  inbox = yes
}
`;
  await writeFile(join(folder, "dovecot.conf"), config);
}

async function writePostfix(folder: string, port: number): Promise<void> {
  const own = join(folder, "postfix");
  const [queue, data] = [join(folder, "queue"), join(folder, "data")];
  for (const made of [own, queue, data]) await mkdir(made);
  const [uid] = await idsOf("postfix");
  await chown(data, uid, 0);
  for (const part of ["dynamicmaps.cf", "dynamicmaps.cf.d", "postfix-files", "postfix-files.d"]) {
    await cp(join("/etc/postfix", part), join(own, part), { recursive: true });
  }
  const config = `
compatibility_level = 3.6
queue_directory = ${queue}
data_directory = ${data}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
myhostname = mx.example.test
mydestination =
virtual_mailbox_domains = example.test
virtual_transport = lmtp:unix:${folder}/lmtp
alias_maps =
alias_database =
local_recipient_maps =
smtpd_relay_restrictions = reject_unauth_destination
default_transport = error:no outside mail
maillog_file = /dev/stdout
enable_long_queue_ids = yes
notify_classes =
`;
  await writeFile(join(own, "main.cf"), config);
  const master = await readFile("/usr/share/postfix/master.cf.dist", "utf8");
  const services = master
    .replace(/^smtp .*inet .*$/m, `127.0.0.1:${port} inet n - n - - smtpd`)
    .replace(/^(\S+\s+\S+\s+\S+\s+\S+\s+)y/gm, "$1n") // no chroot
    .replace(/^postlog.*$/gm, "");
  await writeFile(join(own, "master.cf"), `${services}\npostlog unix-dgram n - n - 1 postlogd\n`);
}

/** A mailbox comes into being with its first mail. */
async function readMaildir(folder: string): Promise<string[]> {
  const mails: string[] = [];
  for (const part of ["new", "cur"]) {
    const names = await readdir(join(folder, part)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    for (const name of names) mails.push(await readFile(join(folder, part, name), "utf8"));
  }
  return mails;
}

async function idsOf(user: string): Promise<[number, number]> {
  const line = (await readFile("/etc/passwd", "utf8")).split("\n").find((entry) => entry.startsWith(`${user}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  if (uid === undefined || gid === undefined) throw new Error(`this system has no user ${user}`);
  return [Number(uid), Number(gid)];
}

async function greeted(port: number, greeting: string): Promise<void> {
  const said = async () => (await firstLine(port)).startsWith(greeting);
  await waitFor(`${greeting.trim()} from port ${port}`, said, { timeoutMs: START_MS_MAX });
}

/** What a server says first; nothing where it is not there yet. */
async function firstLine(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  try {
    const [chunk] = (await once(socket, "data", { signal: AbortSignal.timeout(2_000) })) as [Buffer];
    return chunk.toString("latin1");
  } catch {
    return ""; // refused or silent: asked again until the deadline
  } finally {
    socket.destroy();
  }
}

/** Dovecot's master ends its processes on SIGTERM; Postfix's script ends when its master does. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "close");
  if (child.spawnfile === DOVECOT) child.kill("SIGTERM");
  const last = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
  await closed;
  clearTimeout(last);
}
