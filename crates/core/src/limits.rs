//! Every bound of the system, with its reason.

/// Open asks of one agent: more than a person could ever answer, few enough that a runaway
/// agent cannot fill the inbox of the others.
pub const AGENT_OPEN_ASKS_MAX: usize = 1_000;

/// Open asks in all: what lies in memory. About 1 kB each.
pub const OPEN_ASKS_MAX: usize = 100_000;

/// What one agent's open asks may carry together, so that it cannot blind the inbox by size.
pub const AGENT_OPEN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What all open asks may carry together: they lie in memory, and a subscriber is sent them all.
pub const OPEN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Open questions of one agent.
pub const AGENT_OPEN_QUESTIONS_MAX: usize = 100;

/// Open questions in all.
pub const OPEN_QUESTIONS_MAX: usize = 10_000;

/// Registered agents and devices: a list a client can still receive in one frame.
pub const AGENTS_MAX: usize = 5_000;

/// External agents whose owner left for good that are still shown; the oldest make room.
pub const GONE_AGENTS_KEPT: usize = 100;

/// Messages that wait for one agent: more than a person queues, few enough to be kept with it.
pub const AGENT_MESSAGES_MAX: usize = 64;

/// What a list shows of each message that waits: enough to know which it is.
pub const QUEUED_TEXT_SHOWN: usize = 4 * 1024;

/// One message to an agent: a long brief, with what was pasted into it.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// How long a turn may take unless its agent was started with another limit: longer than any work
/// that is still wanted, since time spent waiting for a person counts.
pub const TURN_TIMEOUT_MS: u64 = 4 * 3_600_000;

/// The time an agent has to end a turn that took too long, before it is ended itself.
pub const INTERRUPT_GRACE_MS: u64 = 30_000;

/// How long a managed agent's ask waits unless its agent was started with another limit.
pub const MANAGED_ASK_TIMEOUT_MS: u64 = 30 * 60_000;

/// The time a managed agent has to open its session: some fetch what they need on their first start.
pub const AGENT_START_MS: u64 = 120_000;

/// The time a managed agent has to end by itself, and again once it was told to.
pub const AGENT_STOP_MS: u64 = 2_000;

/// What a managed agent said that is held before it is committed, in bytes: few rows for much text,
/// and little to commit in front of an ask.
pub const TRANSCRIPT_BYTES_HELD: usize = 32 * 1024;

/// The same in entries.
pub const TRANSCRIPT_ENTRIES_HELD: usize = 256;

/// The same in time: what people who follow an agent do not notice.
pub const TRANSCRIPT_MS_HELD: u64 = 300;

/// How long the fact that an answer was delivered waits for something to be committed with.
pub const SETTLEMENTS_MS_HELD: u64 = 50;

/// How long it takes at the least to hear the lines and bytes below of one agent. Nobody's words come
/// faster; whoever floods waits, and leaves the processors to others.
pub const PACE_MS: u64 = 8;

/// See [`PACE_MS`]: 32,000 lines each second.
pub const PACE_LINES: usize = 256;

/// See [`PACE_MS`]: 32 MB each second.
pub const PACE_BYTES: usize = 256 * 1024;

/// The end of what an agent wrote for its log: what explains how it ended.
pub const AGENT_LOG_BYTES_KEPT: usize = 1024;

/// Requests of one agent that are served at one time, waits for terminals among them.
pub const SERVED_AT_ONCE_MAX: usize = 512;

/// Requests of one agent for files and terminals that wait for an answer: each may hold a file open.
pub const CLIENT_REQUESTS_MAX: usize = 128;

/// Output of a terminal that is kept unless its agent wants another amount.
pub const TERMINAL_OUTPUT_BYTES: usize = 256 * 1024;

/// Ended asks a fresh subscriber is shown besides the open ones.
pub const RECENT_ENDED_SHOWN: usize = 200;

/// Ended asks kept in memory: more than single answers can end in the batch that is being committed
/// and the one that is being decided, so that what is not in memory is on disk.
pub const RECENT_ENDED_KEPT: usize = 3 * COMMIT_INPUTS_MAX;

/// What the ended asks in memory may carry together.
pub const RECENT_ENDED_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// Files that go with one message.
pub const ATTACHMENTS_MAX: usize = 8;

/// One file that goes with a message: what models take of an image, and half of what fits into a line.
pub const ATTACHMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What the files of one message may hold together: in base64 they fit into one line to an agent.
pub const ATTACHMENTS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Labels of one agent, or of one rule: people sort by a few.
pub const LABELS_MAX: usize = 16;

/// Options of one ask: what fits on a screen.
pub const OPTIONS_MAX: usize = 32;

/// One option, name, kind, id or key: a word, not a document.
pub const WORD_BYTES_MAX: usize = 512;

/// An action, message, question or answer: what a person can read.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A piece of JSON a caller attaches. Whole files in an edit fit.
pub const JSON_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How deeply such a piece may be nested: with its envelope still less than the 128 levels at which
/// common parsers give up, so that nobody can send what others cannot read.
pub const JSON_DEPTH_MAX: usize = 100;

/// One incoming frame or body: a piece of JSON and its envelope.
pub const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Time a disconnected owner has to come back before what it holds ends as `agent_gone`.
pub const OWNER_GRACE_MS: u64 = 60_000;

/// Nothing expires in this time after the doors open, so that clients can come back first.
pub const EXPIRY_HOLD_MS: u64 = 60_000;

/// How long a question waits for words unless its asker says otherwise.
pub const QUESTION_TIMEOUT_MS: u64 = 300_000;

/// How long an orchestrator has to answer before people are asked as well: long enough for the turn
/// it is in, short beside the time a question waits.
pub const ESCALATION_MS: u64 = 60_000;

/// The longest time that an orchestrator can be given to answer: a day, after which nobody remembers
/// the question.
pub const ESCALATION_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Generations of agents: an orchestrator's orchestrators may have some, and a loop of them ends here.
pub const HIERARCHY_DEPTH_MAX: usize = 8;

/// Parent messages that start one turn: what came together is read together, and no more than a model
/// can keep apart.
pub const PARENT_MESSAGE_BATCH_MAX: usize = 16;

/// What a parent message quotes of a text: the store writes an orchestrator with its whole queue on
/// each change.
pub const PARENT_MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// Keys of notes that are remembered for each agent: a note is repeated right after it was said, or
/// never.
pub const NOTE_KEYS_MAX: usize = 32;

/// Rules in one ceiling: more than a person reads before giving it.
pub const CEILING_RULES_MAX: usize = 64;

/// The longest timeout a caller can ask for: a year. Beyond it, say `none`.
pub const TIMEOUT_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// How long a token is valid if its maker says nothing: an hour, enough for a script.
pub const TOKEN_TTL_MS_DEFAULT: u64 = 3_600_000;

/// How long a token can be valid: 90 days. A token that is lost is useless after a season at most.
pub const TOKEN_TTL_MS_MAX: u64 = 90 * 24 * 3_600_000;

/// One rule file, ours or another tool's: far more than anybody writes by hand.
pub const RULE_FILE_BYTES_MAX: usize = 1024 * 1024;

/// Rules in one file, so that a file in a repository cannot make verdicts slow.
pub const RULE_FILE_RULES_MAX: usize = 20_000;

/// Rule files of one tool in one folder.
pub const RULE_FOLDER_FILES_MAX: usize = 256;

/// Working directories whose rules are kept ready.
pub const RULE_PLACES_KEPT: usize = 256;

/// Rule files of projects that are kept although none of those directories is in them.
pub const RULE_FILES_KEPT: usize = 1_024;

/// What is told about rule files at one time; more would not be read.
pub const RULE_PROBLEMS_MAX: usize = 1_000;

/// Tokens that are valid at one time.
pub const TOKENS_MAX: usize = 10_000;

/// Processes known to be agents. Dead ones are dropped first.
pub const PROCESS_MARKS_MAX: usize = 10_000;

/// Remembered decisions: far more than a person could read, few enough to lie in memory and to be
/// rebuilt at start in well under a second.
pub const GRANTS_MAX: usize = 20_000;

/// One rule: a long command fits, a script does not.
pub const RULE_BYTES_MAX: usize = 4 * 1024;

/// One path, as long as systems let one be.
pub const PATH_BYTES_MAX: usize = 4 * 1024;

/// The longest that an agent's asks can be let through: a day. Longer is a rule, not an exception.
pub const BYPASS_MS_MAX: u64 = 24 * 3_600_000;

/// Rule files that were trusted.
pub const TRUSTED_FILES_MAX: usize = 10_000;

/// Inputs that wait for the loop before callers wait in turn.
pub const INPUT_QUEUE: usize = 4_096;

/// Inputs decided in one commit: enough that a flush of the disk is shared by all who wait.
pub const COMMIT_INPUTS_MAX: usize = 512;

/// Events kept in memory, already serialised, for readers that keep up.
pub const FEED_EVENTS_KEPT: usize = 4_096;

/// The same bound in bytes, whichever is reached first.
pub const FEED_BYTES_KEPT: usize = 8 * 1024 * 1024;

/// Events a reader takes from the log at a time.
pub const FEED_PAGE: usize = 512;

/// Waits on one ask or question at a time.
pub const WAITERS_PER_SUBJECT_MAX: usize = 1_000;

/// Rows in one page of a list.
pub const PAGE_ROWS_MAX: usize = 1_000;

/// What the rows of one page may carry together; a page has at least one row.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Requests of one connection that are served at the same time, waits apart.
pub const CONNECTION_REQUESTS_MAX: usize = 256;

/// Waits of one connection. They last until a person answers, so more are refused: they would hold
/// up what comes behind them.
pub const CONNECTION_WAITS_MAX: usize = 1_000;

/// Connections open on TCP at one time; fewer where the limit of open files is low.
pub const CONNECTIONS_MAX: usize = 4_096;

/// Open files that connections leave to the host: the record, rule files, a few for each agent, and the
/// look into other processes by which callers are known. Where the limit is low, half of it.
pub const HOST_FILES_KEPT: usize = 8_192;

/// The head of one request: its line and all its headers. Far more than any client of ours sends.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Headers of one request.
pub const HEADERS_MAX: usize = 100;

/// A connection that has not said who it is by then is closed.
pub const AUTH_MS: u64 = 10_000;

/// A subscriber that takes nothing for this long is closed; its cursor still holds.
pub const SLOW_READER_MS: u64 = 600_000;

/// How often the host pings, and how long a silent peer is believed to be there.
pub const PING_MS: u64 = 30_000;
/// A peer that sent nothing, not even a pong, for this long is gone.
pub const SILENCE_MS: u64 = 90_000;

/// One-time login tickets: valid this long, and this many at a time.
pub const TICKET_MS: u64 = 120_000;
/// Tickets waiting to be used.
pub const TICKETS_MAX: usize = 64;

/// Time that open connections get to finish when the host ends.
pub const SHUTDOWN_MS: u64 = 3_000;

/// Actions shown where something may already have run: the newest are what a person can look after.
pub const ALLOWED_ACTIONS_SHOWN: usize = 5;

/// How much of each is shown; the whole of it stands in its ask.
pub const ALLOWED_CHARS_SHOWN: usize = 200;

/// What an agent may do without another ask, at one time. Most agents run what was allowed by
/// themselves and never come for it, so the oldest go; what came late would only be asked again. They
/// are written with the agent, on every ask.
pub const PASSES_MAX: usize = 16;

/// How long a starting host waits for what a killed one was just starting: until such a process runs
/// its own program it holds the killed host's lock and sockets. That takes moments.
pub const HANDOVER_MS: u64 = 1_000;

/// How often a host whose record could not be written looks whether it can be again.
pub const RECOVERY_MS: u64 = 1_000;

/// A request that waits is held whole until its answer comes: an id and a timeout, no more.
pub const WAIT_FRAME_BYTES_MAX: usize = 4 * 1024;

/// Connections on the Unix socket, counted apart so that nobody on TCP can lock a person out.
pub const UNIX_CONNECTIONS_MAX: usize = 1_024;

/// What the requests of one connection that are being served may carry together.
pub const CONNECTION_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One line an agent writes: a whole file in an edit fits several times over.
pub const AGENT_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Lines of an agent that wait to be taken before the agent waits in turn.
pub const AGENT_LINES_QUEUED: usize = 64;

/// A line longer than this is queued alone, so that a queue of long lines cannot fill the memory.
pub const AGENT_LINE_BYTES_SHORT: usize = 64 * 1024;

/// One line of what an agent writes for its log; a longer one is cut into several.
pub const AGENT_LOG_LINE_BYTES_MAX: usize = 4 * 1024;

/// What is read after an agent's exit: as much as a pipe can hold, so that whoever inherited the pipe
/// cannot keep its end from being told.
pub const AGENT_DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// Lines that wait to be written to an agent that does not read.
pub const AGENT_WRITES_QUEUED: usize = 1_024;

/// What such lines may hold together: two of the longest.
pub const AGENT_WRITE_BYTES_QUEUED: usize = 32 * 1024 * 1024;

/// A file that an agent reads or writes through the host: with its envelope it fits into one line.
pub const AGENT_FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A file that people write, and the longest piece of one that they read: escaped it fits into a frame.
pub const PEOPLE_FILE_BYTES_MAX: usize = 1024 * 1024;

/// A piece of a file that people read, unless they ask for another length.
pub const FILE_PIECE_BYTES: usize = 256 * 1024;

/// Entries of one folder that people are shown, and those that are looked at to find the first of them.
pub const FOLDER_ROWS_MAX: usize = 2_000;
pub const FOLDER_NAMES_READ_MAX: usize = 20_000;

/// Files that are listed with what is below a folder, what their paths may hold together, and the entries that
/// are looked at to find them.
pub const TREE_ROWS_MAX: usize = 20_000;
pub const TREE_BYTES_MAX: usize = 2 * 1024 * 1024;
pub const TREE_NAMES_READ_MAX: usize = 200_000;

/// People who look into folders of agents at one time. A thread that a mount never answers stays counted.
pub const FOLDER_READERS_MAX: usize = 16;

/// How long such a look may take: far longer than a disk needs.
pub const FOLDER_READ_MS: u64 = 10_000;

/// Folders that are created for one file an agent writes.
pub const AGENT_NEW_FOLDERS_MAX: usize = 32;

/// Terminals of one agent at a time.
pub const AGENT_TERMINALS_MAX: usize = 128;

/// Output that one terminal keeps, however much its agent asks for.
pub const TERMINAL_OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Terminals that their agent released and that people can still read.
pub const RELEASED_TERMINALS_KEPT: usize = 16;

/// Output that is kept of each of them: with all of them a runner stays small.
pub const RELEASED_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What is kept of the command of a terminal whose agent has ended.
pub const KEPT_COMMAND_BYTES_MAX: usize = 8 * 1024;

/// Agents whose terminals are kept after their end: with all terminals of each, about 150 MB.
pub const ENDED_TERMINALS_AGENTS_MAX: usize = 100;

/// How long the end of an agent waits for the output of its terminals.
pub const KEEP_TERMINALS_MS: u64 = 5_000;

/// Output of a terminal that one reader gets at a time.
pub const TERMINAL_PIECE_BYTES_MAX: usize = 256 * 1024;

/// How long a reader of a terminal waits for more output before it asks again.
pub const TERMINAL_WAIT_MS: u64 = 25_000;

/// Readers of one agent's terminals at a time: many screens, and few enough that the agent's own
/// calls find room at its runner.
pub const TERMINAL_READERS_MAX: usize = 16;

/// How long the end of a command waits for the end of its output, which something the command left
/// running may hold open.
pub const TERMINAL_DRAIN_MS: u64 = 200;

/// A person's own terminals at a time, those whose program has ended among them.
pub const OWN_TERMINALS_MAX: usize = 32;

/// Of these, how many have ended and are kept for reading; then the oldest makes room.
pub const OWN_TERMINALS_ENDED_MAX: usize = 8;

/// Output that each of them keeps: some hundred screens, with their colours.
pub const OWN_TERMINAL_OUTPUT_BYTES: usize = 1024 * 1024;

/// What may be typed or pasted into one in one call.
pub const OWN_TERMINAL_WRITE_BYTES_MAX: usize = 64 * 1024;

/// What waits for a program that does not read; then its writers wait.
pub const OWN_TERMINAL_INPUT_QUEUED: usize = 256 * 1024;

/// How long a write waits for room before it says how much was taken.
pub const OWN_TERMINAL_WRITE_WAIT_MS: u64 = 1_000;

/// Calls of one such terminal at a time: many screens, each with a read that waits.
pub const OWN_TERMINAL_CALLS_MAX: usize = 64;

/// How long the programs of a terminal that is closed have to save what they have.
pub const OWN_TERMINAL_HANG_UP_MS: u64 = 500;

/// How long the host waits for the terminal's runner beyond what the call waits itself.
pub const OWN_TERMINAL_CALL_MS: u64 = 15_000;

/// Rows and columns: no screen has more.
pub const OWN_TERMINAL_SIDE_MAX: u16 = 2_000;

/// How long the end of everything an agent started is waited for before it is reported as a failure.
/// A killed process goes within milliseconds unless it hangs in the kernel.
pub const TREE_KILL_MS: u64 = 10_000;

/// One call of git: a checkout of a very large repository on a slow disk fits.
pub const GIT_CALL_MS: u64 = 120_000;

/// What one call of git may print: the names of some hundred thousand files.
pub const GIT_OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What is kept of git's own words when it fails.
pub const GIT_WORDS_BYTES_MAX: usize = 64 * 1024;

/// The diff of a worktree: far more than is read, and fits in a frame.
pub const DIFF_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Files of a worktree that are named one by one.
pub const WORKTREE_FILES_SHOWN: usize = 2_000;

/// Characters of an agent's name that its worktree takes over.
pub const WORKTREE_NAME_CHARS_MAX: usize = 48;

/// One `.worktreeinclude`.
pub const WORKTREE_INCLUDE_BYTES_MAX: usize = 64 * 1024;

/// Files that are copied into a worktree: what an agent needs, not what it can make itself.
pub const WORKTREE_INCLUDE_FILES_MAX: usize = 20_000;

/// The same bound in bytes.
pub const WORKTREE_INCLUDE_TOTAL_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Agents that one call waits for: what fits in a request that waits.
pub const WAIT_AGENTS_MAX: usize = 100;

/// Tool calls of one turn that are remembered, so that an ask can be joined with what was said of
/// its call before. The oldest ones that ended make room.
pub const TOOL_CALLS_KNOWN_MAX: usize = 512;

/// Of those, the ones that ended: they are known only so that an end that is told twice counts once,
/// and what is known is stored with each commit.
pub const TOOL_CALLS_OVER_KNOWN_MAX: usize = 32;

/// What the inputs and diffs of those calls may carry together. A call that does not fit is known by
/// its id alone, and an ask about it goes to a person who is told so.
pub const TOOL_CALL_BYTES_KNOWN_MAX: usize = 4 * 1024 * 1024;

/// Requests of one agent that wait for an answer of ours: its asks, and as much again for files and
/// terminals.
pub const AGENT_REQUESTS_MAX: usize = 2 * AGENT_OPEN_ASKS_MAX;

/// What a tool gave, as far as the transcript keeps it.
pub const TOOL_RESULT_BYTES_MAX: usize = TEXT_BYTES_MAX;

/// What is kept of a line that is not of an agent's protocol: enough to recognise it.
pub const NOISE_BYTES_MAX: usize = 2 * 1024;

/// How often an ask is shown anew because its agent says more of it: real ones fill in an input once
/// or twice, and each time is a row in the record.
pub const ASK_CHANGES_MAX: u32 = 32;

/// Steps of a plan that are kept: the plan is written with its agent again and again.
pub const PLAN_STEPS_MAX: usize = 100;

/// Modes, models or ways to log in of one agent: what fits into a list for a person.
pub const AGENT_CHOICES_MAX: usize = 256;

/// What a runner keeps in memory of what its agent said and no host has committed; more goes to a
/// file. A runner is to stay small.
pub const RUNNER_BYTES_HELD: usize = 256 * 1024;

/// What a runner keeps in its file; then its agent waits. Some minutes of a busy agent without a host.
pub const RUNNER_SPILL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long a runner goes on without a host unless it is told otherwise.
pub const RUNNER_PATIENCE_MS: u64 = 30 * 60 * 1000;

/// The longest that may be: after a week nobody remembers what was left running.
pub const RUNNER_PATIENCE_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;

/// How long a host that ends its agents first waits for them: an agent that does not go by itself is
/// killed after some seconds, and all of them end at the same time.
pub const AGENTS_END_MS: u64 = 60_000;

/// How long a runner waits to be told what to start: whoever started it may have been killed.
pub const RUNNER_LAUNCH_MS: u64 = 30_000;

/// How often a runner looks whether its socket is still there.
pub const RUNNER_SOCKET_CHECK_MS: u64 = 5_000;

/// Calls of the shell backend that a runner has under way: every terminal's, twice.
pub const RUNNER_CALLS_MAX: usize = 256;

/// What a runner has to tell a host that does not take it; then that host is left.
pub const RUNNER_FRAMES_QUEUED: usize = 8_192;

/// Of these, how many may wait before more of an agent's log is left out.
pub const RUNNER_LOG_QUEUED: usize = 256;

/// Names a runner remembers: far more than an agent has requests open at a time.
pub const RUNNER_USED_IDS_MAX: usize = 65_536;

/// Callers of a runner that have not said who they are yet.
pub const RUNNER_GREETINGS_MAX: usize = 16;

/// How long a runner that ends its agent waits before each next step.
pub const RUNNER_GRACE_MS: u64 = 2_000;

/// How often an agent that is being stopped can be told to stop more quickly.
pub const RUNNER_STOPS_MAX: usize = 8;

/// What a runner left when it ended: everything it may have kept, and what it knew.
pub const RUNNER_EXIT_REPORT_BYTES_MAX: u64 = RUNNER_SPILL_BYTES_MAX + 32 * 1024 * 1024;

/// How often, a second apart, a runner tries to write its exit report.
pub const RUNNER_EXIT_REPORT_TRIES: usize = 30;

/// Keys of terminals that are remembered: a host that comes after repeats only the newest.
pub const TERMINAL_KEYS_KEPT: usize = 4_096;

/// How long a host tries to reach a runner that lives.
pub const LINK_CONNECT_MS: u64 = 10_000;

/// The longest frame on a link: everything that may be written at once, and what is said about it.
pub const LINK_FRAME_BYTES_MAX: usize = AGENT_WRITE_BYTES_QUEUED + 1024 * 1024;

/// What waits on a link because its host does not take it: the longest line and what comes with it.
/// Then nothing more is read.
pub const LINK_BYTES_WAITING_MAX: usize = AGENT_LINE_BYTES_MAX + 1024 * 1024;

/// Open files that a host needs for each agent it goes on with: the link, and what it looks at meanwhile.
pub const RUNNER_FILES: u64 = 2;

/// Open files that a host needs besides: its record, its doors, and some callers.
pub const HOST_FILES: u64 = 64;

/// What is read of a runner's record: some paths.
pub const RUNNER_RECORD_BYTES_MAX: u64 = 64 * 1024;

/// How often a call by MCP that waits for somebody says so: clients give up on what is silent for a
/// minute, some for less.
pub const MCP_PROGRESS_MS: u64 = 5_000;

/// How long a question by MCP waits unless its asker says otherwise: agents that wait longer are better
/// told that nobody is there.
pub const MCP_QUESTION_S: u64 = 300;

/// The longest a question by MCP can wait: a day.
pub const MCP_QUESTION_S_MAX: u64 = 24 * 3_600;

/// One text of somebody else in the result of an MCP tool: what a model reads without losing its own
/// thread.
pub const MCP_TEXT_BYTES_MAX: usize = 32 * 1024;

/// One message that is relayed by MCP on standard input and output: as long as an agent's own lines.
pub const MCP_LINE_BYTES_MAX: usize = AGENT_LINE_BYTES_MAX;

/// Calls by MCP that one agent has under way at one time: more than any makes, each holds a thread.
pub const MCP_CALLS_AT_ONCE_MAX: usize = 64;

/// How long a call by MCP waits for a host to come back: as long as an ask waits for a person.
pub const MCP_HOST_WAIT_MS: u64 = 30 * 60_000;

/// The first pause before a host that was not there is sought again; it doubles up to the next.
pub const MCP_RETRY_MS: u64 = 50;

/// See [`MCP_RETRY_MS`]: soon enough for whoever waits, rare enough for a machine without a host.
pub const MCP_RETRY_MS_MAX: u64 = 1_000;

/// How long an orchestrator waits for its agents unless it says otherwise.
pub const MCP_WAIT_S: u64 = 300;

/// The longest it can wait at a time: questions that come up meanwhile end the wait anyway.
pub const MCP_WAIT_S_MAX: u64 = 3_600;

/// Rows in one list that an orchestrator is shown.
pub const MCP_LIST_ROWS_MAX: usize = 100;

/// What one look at a transcript gives a model to read.
pub const MCP_TRANSCRIPT_BYTES_MAX: usize = 64 * 1024;

/// Pages of a transcript that are read to find its newest entries.
pub const MCP_TRANSCRIPT_PAGES_MAX: usize = 50;

/// The longest a hook waits for a person: what a tool lets its hooks take at the most.
pub const HOOK_WAIT_MS_MAX: u64 = 24 * 3_600_000;

/// How long a hook waits for a person unless its user says otherwise: longer than a coffee, and
/// short enough that a session does not hang for an afternoon.
pub const HOOK_LIMIT_MS: u64 = 10 * 60_000;

/// What a hook keeps back of the time its caller gives it: enough to print its answer on a loaded
/// machine, because a hook that comes too late is a hook that said nothing.
pub const HOOK_MARGIN_MS: u64 = 5_000;

/// What a hook takes its caller to give it if nobody told it: the shortest that any had by default.
pub const HOOK_CALLER_MS: u64 = 60_000;

/// What a hook reads from its caller: a tool's input and what is said around it.
pub const HOOK_INPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How soon after a hook's answer the same tool call may ask again at its own terminal and still be
/// the same call.
pub const HOOK_JOIN_MS: u64 = 10_000;

/// Tool calls whose second hook is remembered: more than are open in that time.
pub const HOOK_CLAIMS_KEPT: usize = 1_024;

/// How often the host looks whether sessions that it did not start still live.
pub const HOOK_SWEEP_MS: u64 = 30_000;

/// Sessions that may begin alike before the host refuses to tell them apart.
pub const HOOK_TWINS_MAX: usize = 100;

/// One file of the web page that is read from a folder: far more than any of them has.
pub const WEB_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How old the record of a device's last use becomes before a use is recorded again: one small write
/// a day for each device.
pub const DEVICE_RENEWAL_MS: u64 = 24 * 3_600_000;

/// How long a device stays logged in without being used, unless configured otherwise: longer than a
/// holiday.
pub const DEVICE_SESSION_MS: u64 = 30 * 24 * 3_600_000;

/// The name of a device and a form around it.
pub const LOGIN_FORM_BYTES_MAX: usize = 4 * 1024;

/// How long one attempt to send a notification may take: a server that needs longer is tried again.
pub const NOTIFY_SEND_MS: u64 = 10_000;

/// What is read of a server's reply to a notification: enough for its reason.
pub const NOTIFY_REPLY_BYTES_MAX: u64 = 4 * 1024;

/// Notices that wait in one channel: a digest names no more, and says how many there are.
pub const NOTIFY_WAITING_MAX: usize = 200;

/// Messages that a channel tells one by one in an hour: a person does not read more of them.
pub const NOTIFY_DIGEST_ABOVE: usize = 10;

/// The time between two digests: asks wait in them, so it is short.
pub const NOTIFY_DIGEST_MS: u64 = 5 * 60_000;

/// How long an agent has to be idle or over before that is told: many go on at once.
pub const NOTIFY_SETTLE_MS: u64 = 5_000;

/// The time between two messages about what one agent does; asks are told at once.
pub const NOTIFY_AGENT_PAUSE_MS: u64 = 60_000;

/// After this time it is no longer told that an agent is idle or over.
pub const NOTIFY_LIFE_MS: u64 = 24 * 3_600_000;

/// The first pause before a message is sent again; it doubles up to the next.
pub const NOTIFY_RETRY_MS: u64 = 1_000;

/// See [`NOTIFY_RETRY_MS`]: a server that was away for long is found within this time.
pub const NOTIFY_RETRY_MS_MAX: u64 = 5 * 60_000;

/// How long a screen counts as being looked at after its last word; pages repeat it every 20 seconds.
pub const NOTIFY_FOCUS_MS: u64 = 30_000;

/// How long an ask that somebody opened is not told elsewhere.
pub const NOTIFY_OPENED_MS: u64 = 2 * 60_000;

/// Screens, and asks opened on them, that are remembered.
pub const NOTIFY_SCREENS_MAX: usize = 64;

/// Characters of a message: what a lock screen shows.
pub const NOTIFY_TEXT_CHARS_MAX: usize = 140;

/// Browsers that are told by Web Push: each is a reader of the log.
pub const NOTIFY_PUSH_MAX: usize = 20;

/// Events after which a channel that had nothing to tell commits how far it has read.
pub const NOTIFY_CURSOR_LAG_MAX: u64 = 10_000;

/// How long the command that tells something may run.
pub const NOTIFY_COMMAND_MS: u64 = 10_000;

/// The address at a push service: what browsers have is a few hundred bytes.
pub const NOTIFY_ENDPOINT_BYTES_MAX: usize = 2_048;

/// The name of a device, or of what a screen shows.
pub const NOTIFY_NAME_BYTES_MAX: usize = 200;

/// Webhooks in the configuration: each is a reader of the log.
pub const NOTIFY_WEBHOOKS_MAX: usize = 16;

/// What is read of a file with a secret.
pub const NOTIFY_SECRET_BYTES_MAX: u64 = 4 * 1024;

/// The line that names an ask in lists, and each of its warnings: more than a screen shows. The whole of
/// what will run is beside it.
pub const SUMMARY_BYTES_MAX: usize = 1024;

/// JSON that is laid out with all its levels; a longer one with a few, so that what is shown of it stays
/// a few times its size.
pub const INDENTED_JSON_BYTES_MAX: usize = 64 * 1024;

/// Pairs of lines that are compared to show one change: a thousand lines with a thousand others, some
/// milliseconds.
pub const LINES_COMPARED_MAX: usize = 1_000_000;

/// Pairs of words that are compared to show what changed within the lines of one change.
pub const WORDS_COMPARED_MAX: usize = 500_000;

/// Lines of one file's changes that are shown with those of other files; a file with more is shown when
/// it is asked for by itself.
pub const DIFF_FILE_LINES_SHOWN: usize = 3_000;

/// Lines of all files of one comparison that are shown together.
pub const DIFF_LINES_SHOWN: usize = 30_000;

/// Answers in one call: as many as equal asks stand together in an inbox.
pub const ANSWERS_MAX: usize = 200;

/// Open asks for which a rule is tried before it is made.
pub const OPEN_ASKS_TRIED_MAX: usize = 500;

/// An ask that comes whole to a reader of brief rows: a usual command does, a file does not.
pub const BRIEF_ASK_BYTES_MAX: usize = 2 * 1024;

/// What the views of asks in one reply or event carry together. Beyond it they come without the parts
/// that repeat the input, which is beside them; one ask alone is always shown whole.
pub const VIEWS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Sessions of one editor's process: more windows than a person looks at.
pub const EDITOR_SESSIONS_MAX: usize = 64;

/// An allow that an editor sends sooner than this after it was asked is its own and not a person's.
pub const EDITOR_AUTOMATIC_MS: u64 = 300;

/// Tool calls of one session whose content can still change in an editor.
pub const EDITOR_CALLS_KEPT: usize = 500;

/// Lines of ours on one tool call in an editor; older ones make room.
pub const EDITOR_NOTES_MAX: usize = 20;

/// How long the host waits for an editor to do something that needs no person: a busy editor is slow, and one
/// that says nothing must not hold an agent for ever.
pub const EDITOR_CALL_MS: u64 = 20_000;

/// How long an editor may be out of reach before it counts as lost: time to find a host that was replaced.
pub const EDITOR_LOST_MS: u64 = 5_000;

/// How long an agent waits for the text of a file that may be open in an editor before it gets the file.
pub const EDITOR_READ_MS: u64 = 1_000;

/// How often a terminal of an editor is read while somebody waits for more of it.
pub const EDITOR_POLL_MS: u64 = 200;

/// How long one request for calls to an editor is held.
pub const EDITOR_TAKE_MS: u64 = 25_000;

/// Calls to the editor of one agent that were not answered: as many as it may have terminals, and some.
pub const EDITOR_CALLS_OPEN_MAX: usize = 512;

/// Commands that an editor's process remembers, so that none is started twice.
pub const EDITOR_KEYS_KEPT: usize = 1_000;

/// Sessions on one page of a list for an editor.
pub const EDITOR_LIST_PAGE: usize = 50;

/// A line of an editor: a prompt with the files it embeds.
pub const EDITOR_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Lines that wait for an editor to read them; beyond, what agents say waits with the host.
pub const EDITOR_LINES_MAX: usize = 256;

/// Facts about followed agents on their way to the editor's side.
pub const EDITOR_FACTS_MAX: usize = 64;

/// Calls of an editor's process to the host that wait for those before them.
pub const EDITOR_CALLS_QUEUED: usize = 64;

/// Branches of a repository that are kept from an agent in a worktree, each by a mount: beyond this its start would
/// take too long.
pub const SANDBOX_BRANCHES_MAX: usize = 2_000;

/// What waits for a word of a host, of one agent: places to connect to, files to write. Each is an ask; more are refused.
pub const HOLDS_MAX: usize = 32;

/// Connections out of one sandbox at a time, those that wait included. More wait in the queue of the kernel.
pub const NETWORK_CONNECTIONS_MAX: usize = 256;

/// Opens that wait at a time, of one agent: many may wait for one answer, and each has a descriptor of the runner.
/// More are refused.
pub const HELD_OPENS_MAX: usize = 128;

/// What was allowed when nobody waited any more, for one try each.
pub const HOLD_PASSES_MAX: usize = 32;

/// Answers about holds that a runner knows, for a host that gives them again.
pub const HOLD_ANSWERS_KEPT: usize = 256;

/// Ports of this machine that one sandbox reaches on its own loopback. Each is a listener.
pub const SANDBOX_LOCAL_PORTS_MAX: usize = 16;

/// The longest that anything may be held by a sandbox. An allow that comes later counts for the next try.
pub const SANDBOX_HOLD_SECONDS_MAX: u64 = 3600;

/// The head of a request to the proxy, with cookies and tokens.
pub const NETWORK_HEAD_BYTES_MAX: usize = 32 * 1024;

/// How long a program may take to say where it wants to go.
pub const NETWORK_HEAD_MS: u64 = 10_000;

/// How long looking up a name or dialling an address may take.
pub const NETWORK_DIAL_MS: u64 = 10_000;

/// What may be looked for in transcripts, in bytes: a sentence.
pub const SEARCH_TEXT_BYTES_MAX: usize = 512;

/// Hits on one page of a search.
pub const SEARCH_HITS_MAX: usize = 200;

/// Characters of the text around a hit.
pub const SEARCH_EXCERPT_CHARS: usize = 200;

/// Characters by which words are told apart; encoded bytes are longer, and nobody looks for them whole.
pub const SEARCH_WORD_CHARS_MAX: usize = 64;

/// Text of transcripts that the index takes in at once: some milliseconds.
pub const SEARCH_INDEX_STEP_BYTES: usize = 64 * 1024;

/// Text that waits to be indexed before an append that also answers asks takes a part of it in.
pub const SEARCH_INDEX_LAG_BYTES_MAX: usize = 4 * 1024 * 1024;
