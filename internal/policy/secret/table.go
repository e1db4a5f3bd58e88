package secret

import (
	"slices"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
)

// rules is the table of all rules. If two rules mask the same value, the first one is reported.
var rules = slices.Concat(fileRules, formRules, commandRules, keyRules)

// keyRules find keys that name a secret, in any syntax.
var keyRules = []Rule{
	{Name: "key-value", Purpose: "values of keys that name a secret: password: x, DB_TOKEN=x", words: secretWords, line: keyValues},
	{Name: "key-block", Purpose: "values below such a key: blocks and lists of YAML", words: secretWords, text: yamlBlocks},
	{Name: "option", Purpose: "values of options that name a secret: --token x", words: secretWords, line: options},
	{Name: "directive", Purpose: "lines of such a key and a value: auth_pass x", words: secretWords, line: directives},
}

// formRules find secrets by their form, anywhere in a text.
var formRules = []Rule{
	{Name: "private-key", Purpose: "bodies of private keys in PEM, OpenSSH, PGP and OpenVPN form", words: []string{"-----begin "}, text: privateKeys},
	{Name: "private-key", Purpose: "private keys of age", words: []string{"age-secret-key-"}, line: pattern(`\b(AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Za-z]+)`, anything)},
	{Name: "private-key", Purpose: "private keys in PEM in base64", words: []string{"ls0tls1crudjti"}, line: pattern(`(LS0tLS1CRUdJTi[\w+/=-]*)`, classify.IsPrivateKeyBase64)},
	{Name: "kubernetes-secret", Purpose: "values of data and stringData of a Secret", words: []string{"secret"}, text: kubernetesSecrets},
	{Name: "url-userinfo", Purpose: "passwords in addresses: https://user:x@host", words: []string{"://", "iscsi:", "smb:"}, line: urlPasswords},
	{
		Name: "webhook-url", Purpose: "addresses that are a secret: web hooks of chats",
		words: []string{"hooks.slack", "webhook", "api.telegram", "hc-ping", "hooks.", "bot"}, line: pattern(
			`(?i)hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]+)|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/([\w-]+)|(?:webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook)/([^\s"'<>]+)|api\.telegram\.org/(?:file/)?bot(\d+:[\w-]{20,})|hooks\.zapier\.com/hooks/catch/([\w/]+)|chat\.googleapis\.com/v1/spaces/[\w-]+/messages\?([^\s"'<>]+)`, notReference),
	},
	{Name: "provider-token", Purpose: "tokens with the prefix of their provider: ghp_x, glpat-x", words: []string{
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glsa_", "glc_", "glcbt-",
		"glptt-", "glft-", "glimt-", "glagent-", "xox", "xapp-", "npm_", "hvs.", "hvb.", "hvr.", "sk_live", "rk_live",
		"sk_test", "whsec_", "dop_v1", "doo_v1", "dor_v1", "dp.pt.", "dp.st.", "tskey-", "aiza", "ya29.", "sk-", "sg.",
		"pypi-", "shpat_", "lin_api", "nrak-", "nrii-", "eaaa", "atatt", "dckr_pat_", "dapi", "rpa_", "hf_", "key-",
		"r8_", "pul-", "tfp_", "figd_", "ops_ey", "k10", "sbp_", "cfut_", "phx_", "pnu_", "syt_", "xkeysib-", "nvapi-",
		"gsk_", "ntn_", "secret_", "dt0c01.", "glc_", ".atlasv1.", "amzn.", "asia", "1//0", "gocspx-",
	}, line: pattern(
		`(?:^|[^A-Za-z0-9_-])(gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|(?:glpat|gldt|glrt|glcbt|glptt|glft|glimt|glagent|glsoat|gloas|glffct)-[\w.-]{16,}|gl(?:sa|c)_[\w=+/-]{20,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|npm_[A-Za-z0-9]{20,}|hv[sbr]\.[\w-]{16,}|[sr]k_(?:live|test)_\w{10,}|whsec_[\w+/=-]{16,}|do[por]_v1_\w{32,}|dp\.(?:pt|st|ct|sa)\.[\w.-]{20,}|tskey-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w.-]{20,}|sk-(?:ant-|proj-|svcacct-|or-)?[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|pypi-[\w-]{20,}|shp(?:at|ca|pa|ss)_\w{20,}|lin_api_\w{20,}|NRAK-\w{16,}|NRII-[\w-]{16,}|ATATT[\w=-]{20,}|dckr_pat_[\w-]{16,}|dapi[0-9a-f]{32}|hf_[A-Za-z0-9]{20,}|key-[0-9a-f]{32}|r8_\w{30,}|pul-[0-9a-f]{30,}|figd_[\w-]{20,}|ops_eyJ[\w-]{20,}|K10[0-9a-f]{32,}::\w+:[\w.-]+|K10\w{20,}::[\w-]+:\S+|sbp_[0-9a-f]{30,}|ph[xc]_\w{30,}|syt_\w{10,}|xkeysib-[\w-]{30,}|nvapi-[\w-]{30,}|gsk_\w{30,}|ntn_\w{30,}|dt0c01\.\w+\.\w{20,}|\w{10,}\.atlasv1\.[\w-]{30,}|amzn\.mws\.[\w-]{30,}|1//0[\w-]{30,}|GOCSPX-[\w-]{20,})`, anything)},
	{Name: "web-token", Purpose: "signed web tokens", words: []string{"eyj"}, line: pattern(`(?:^|[^A-Za-z0-9_-])(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`, anything)},
	{Name: "password-hash", Purpose: "hashes of passwords, as in /etc/shadow", words: []string{
		"$", "{s", "{c", "{m",
		"{p", "pbkdf2", "scram-sha", "md5",
	}, line: pattern(
		`(\$(?:y|gy|7|6|5|5r|1|2[abxy]?|sha1|md5|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]*|P|H|S|8|9|14)\$[^\s$"':]*(?:\$[^\s"':,;}]+)+|\$2[abxy]\$\d\d\$[./A-Za-z0-9]{20,}|(?i:grub\.pbkdf2\.sha\d+\.[0-9A-F.]+)|\{(?i:SSHA|SHA|SMD5|MD5|CRYPT|SSHA\d+|SHA\d+|PBKDF2[\w-]*|ARGON2\w*|BLF-CRYPT|SHA\d+-CRYPT|SSHA\d+(?:\.HEX)?|PLAIN|CLEAR|CLEARTEXT|PLAIN-MD5|CRAM-MD5|DIGEST-MD5|NT|LANMAN|X-NTHASH|X-SECRET)\}[^\s"',;:]+|SCRAM-SHA-(?:1|256|512)\$\d+:[^\s"']+|\bmd5[0-9a-f]{32}\b|\bpbkdf2[_:][\w:$+/=.-]{20,})`, anything)},
	{Name: "authorization-header", Purpose: "what follows Bearer, Basic or token in a header", words: []string{"authorization", "bearer", "basic", "api-key", "private-token", "auth-token", "apikey"}, line: authorizations},
	{Name: "bootstrap-token", Purpose: "bootstrap tokens of Kubernetes", words: []string{"token", "join", "kubeadm"}, line: pattern(`(?:^|[^A-Za-z0-9._/-])([a-z0-9]{6}\.[a-z0-9]{16})(?:[^A-Za-z0-9.]|$)`, anything)},
	{Name: "registry-login", Purpose: "log-ins of container registries", words: []string{"auth"}, line: pattern(`(?:^|["'\s:/])_?[aA]uth["']?\s*[:=]\s*["']?([A-Za-z0-9+/_-]{4,}={0,2})["',\s}]*`, classify.IsLogin)},
	{Name: "registry-login", Purpose: "log-ins of container registries", words: []string{`"auths"`}, text: everyLine(pattern(`"(?:auth|identitytoken|registrytoken)"\s*:\s*"([^"]+)"`, func(v string) bool { return !classify.IsReference(v, false) }))},
	{Name: "shared-key", Purpose: "keys in strings of connections: AccountKey=x;", words: []string{"key=", "sig=", "pwd="}, line: pattern(`(?i)(?:AccountKey|SharedAccessKey|SharedSecret)=([^;\s"']+)|[?&]sig=([^&\s"'<>]+)`, notReference)},
	{Name: "data-url", Purpose: "encoded contents that hold a secret", words: []string{"data:"}, line: dataURLs},
	{Name: "xml-element", Purpose: "elements and attributes of XML that name a secret", words: secretWords, line: xmlElements},
}
